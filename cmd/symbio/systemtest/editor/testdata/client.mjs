// An editor by the TypeScript SDK: it does what the test writes to its input, a request of JSON in each line, and prints what comes
// back. argv: the SDK, then the arguments of symbio.
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { Readable, Writable } from "node:stream";

const acp = await import(process.argv[2]);
const symbio = spawn("symbio", process.argv.slice(3), { stdio: ["pipe", "pipe", "inherit"] });
const print = (line) => console.log(JSON.stringify(line));
let option = "";
const connection = acp
  .client({ name: "editor" })
  .onNotification("session/update", ({ params }) => print({ update: params.update }))
  .onRequest("session/request_permission", ({ params }) => {
    print({ asked: params });
    return { outcome: option ? { outcome: "selected", optionId: option } : { outcome: "cancelled" } };
  })
  .connect(acp.ndJsonStream(Writable.toWeb(symbio.stdin), Readable.toWeb(symbio.stdout)));

for await (const line of createInterface({ input: process.stdin })) {
  const { id, method, params, answer } = JSON.parse(line);
  if (answer !== undefined) option = answer;
  else if (id === undefined) await connection.agent.notify(method, params);
  else
    connection.agent.request(method, params).then(
      (result) => print({ id, result }),
      (error) => print({ id, error: { code: error.code, message: error.message } }),
    );
}
connection.close();
symbio.stdin.end();
