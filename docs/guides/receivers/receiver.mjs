// A receiver of webhooks: node receiver.mjs, with the secret in WEBHOOK_SECRET.
import { createHmac, timingSafeEqual } from "node:crypto";
import { createServer } from "node:http";

const tolerance = 300;
const processed = new Set(); // a real receiver stores the ids with its effect

// verify reports whether the request has a signature of the secret, and is not old.
function verify(secret, headers, body) {
  const key = Buffer.from(secret.replace(/^whsec_/, ""), "base64");
  const sent = headers["webhook-timestamp"] ?? "";
  if (!/^[0-9]+$/.test(sent) || Math.abs(Date.now() / 1000 - Number(sent)) > tolerance) return false;
  const mac = createHmac("sha256", key).update(`${headers["webhook-id"]}.${sent}.`).update(body);
  const want = Buffer.from("v1," + mac.digest("base64"));
  return (headers["webhook-signature"] ?? "").split(" ").some((text) => { // two while the secret rotates
    const got = Buffer.from(text);
    return got.length === want.length && timingSafeEqual(got, want);
  });
}

createServer((request, response) => {
  const parts = [];
  request.on("data", (part) => parts.push(part));
  request.on("end", () => {
    const body = Buffer.concat(parts);
    const valid = request.method === "POST" && verify(process.env.WEBHOOK_SECRET, request.headers, body);
    if (valid && !processed.has(request.headers["webhook-id"])) {
      processed.add(request.headers["webhook-id"]);
      console.log(body.toString());
    }
    response.writeHead(valid ? 204 : 401).end();
  });
}).listen(Number(process.env.PORT), "127.0.0.1");
