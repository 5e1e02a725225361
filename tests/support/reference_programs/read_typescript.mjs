// Prints what a client of the real TypeScript SDK sees of workflows, one JSON object each:
// read.mjs URL ID...
import { DBOSClient } from "@dbos-inc/dbos-sdk";

const [url, ...ids] = process.argv.slice(2);
const client = await DBOSClient.create({ systemDatabaseUrl: url });
for (const id of ids) {
  const seen = { status: (await client.getWorkflow(id)).status };
  try {
    seen.result = await client.retrieveWorkflow(id).getResult();
  } catch (error) {
    seen.error = { name: error.name, message: error.message, code: error.code, data: error.data };
  }
  const steps = await client.listWorkflowSteps(id);
  seen.steps = steps.map((step) => [step.functionID, step.name, step.output ?? null]);
  console.log(JSON.stringify(seen));
}
await client.destroy();
