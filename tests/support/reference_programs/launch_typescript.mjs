// Launches an application of the real TypeScript SDK and shuts it down: launch.mjs URL SCHEMA
import { DBOS } from "@dbos-inc/dbos-sdk";

const [url, schema] = process.argv.slice(2);
DBOS.setConfig({
  name: "reference",
  systemDatabaseUrl: url,
  systemDatabaseSchemaName: schema,
  runAdminServer: false,
});
await DBOS.launch();
await DBOS.shutdown();
