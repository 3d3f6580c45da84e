import { api, unwrap } from "../../api/client";
import { unknownOutcome } from "../../query/action";
import { randomId } from "../../api/fetch";
import { type Begun, type Remembered, partOf, remember, resumed } from "./resume";

type Sending = Remembered & { progress: (sent: number) => void };

// A larger file is sent in parts, of which a failed one is sent again.
export const inPartsFrom = 32 << 20;
const parallel = 3;
const attempts = 4;

// upload sends a file. Without replace, an existing file is an error.
export const upload = (sending: Sending) => (sending.file.size > inPartsFrom ? sendParts(sending) : sendWhole(sending));

const typeOf = (file: File) => (file.type === "" ? "application/octet-stream" : file.type);
const absentUnless = (replace: boolean) => (replace ? {} : { "If-None-Match": "*" as const });

// bytes are sent as they are.
const bytes = (body: Blob, type: string) => ({ body: body as unknown as string, bodySerializer: () => body, headers: { "Content-Type": type } });

async function sendWhole({ project, path, file, replace, progress }: Sending) {
  await unwrap(api.PUT("/api/v1/storage/upload", { params: { query: { path }, header: { "X-Project-ID": project, ...absentUnless(replace) } }, ...bytes(file, typeOf(file)) }));
  progress(file.size);
}

async function begin(sending: Sending): Promise<Begun> {
  const { project, path, file, replace } = sending;
  const { id, part_size_bytes: partSize = file.size } = await unwrap(
    api.POST("/api/v1/storage/uploads", {
      params: { header: { "X-Project-ID": project, "X-Idempotency-Key": randomId(), ...absentUnless(replace) } },
      body: { path, size_bytes: file.size, media_type: typeOf(file) },
    }),
  );
  remember(sending, id);
  return { id, partSize, stored: new Set() };
}

// sendParts sends parts at the same time. An upload that is rejected is aborted, so that its bytes are free. One that was
// interrupted stays, and the next attempt sends the rest.
async function sendParts(sending: Sending) {
  const { project, file, progress } = sending;
  const header = { "X-Project-ID": project };
  const { id, partSize, stored } = (await resumed(sending)) ?? (await begin(sending));
  const one = { header, path: { id } };
  const all = Array.from({ length: Math.ceil(file.size / partSize) }, (_, index) => index + 1);
  const numbers = all.filter((number) => !stored.has(number));
  const key = randomId();
  let sent = all.filter((number) => stored.has(number)).reduce((sum, number) => sum + partOf(file, number, partSize).size, 0);
  const work = async () => {
    for (let number = numbers.shift(); number !== undefined; number = numbers.shift()) {
      const part = partOf(file, number, partSize);
      const path = { id, number };
      await repeat(() => unwrap(api.PUT("/api/v1/storage/uploads/{id}/parts/{number}", { params: { header, path }, ...bytes(part, "application/octet-stream") })));
      progress((sent += part.size));
    }
  };
  try {
    await Promise.all(Array.from({ length: parallel }, work));
    await repeat(() => unwrap(api.POST("/api/v1/storage/uploads/{id}/complete", { params: { ...one, header: { ...header, "X-Idempotency-Key": key } } })));
    remember(sending);
  } catch (error) {
    numbers.length = 0;
    // A completion without a definite response may still be in progress.
    if (!unknownOutcome(error)) {
      remember(sending);
      void api.DELETE("/api/v1/storage/uploads/{id}", { params: { ...one, header: { ...header, "X-Idempotency-Key": randomId() } } });
    }
    throw error;
  }
}

// repeat calls again after an error without a definite response, with a growing pause.
async function repeat(call: () => Promise<unknown>) {
  for (let attempt = 1; ; attempt++) {
    try {
      return await call();
    } catch (error) {
      if (attempt === attempts || !unknownOutcome(error)) throw error;
      await new Promise((resolve) => setTimeout(resolve, 500 * 2 ** attempt));
    }
  }
}
