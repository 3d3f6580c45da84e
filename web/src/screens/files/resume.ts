import { type Schemas, api, unwrap } from "../../api/client";
import { unknownOutcome } from "../../query/action";
import { load, store } from "../../session/storage";

// Remembered identifies an upload in parts: the same file of the same user, with the same answer to whether it replaces.
export type Remembered = { user: string; project: string; path: string; file: File; replace: boolean };

// Begun is an upload with the parts that the server has.
export type Begun = { id: string; partSize: number; stored: Set<number> };

const nameOf = ({ user, project, path, file, replace }: Remembered) => `upload.${user}.${project}.${file.size}.${file.lastModified}.${replace}.${path}`;

// remember stores the id of an upload in this browser until it has ended, which has no id.
export const remember = (upload: Remembered, id = "") => void store(nameOf(upload), id);

// resumed is the upload that was interrupted, also by a closed tab. One that has expired is begun again.
export async function resumed(upload: Remembered): Promise<Begun | undefined> {
  const id = load(nameOf(upload));
  if (id === "") return undefined;
  const params = { header: { "X-Project-ID": upload.project }, path: { id } };
  try {
    const { state, part_size_bytes: partSize = upload.file.size } = await unwrap(api.GET("/api/v1/storage/uploads/{id}", { params }));
    return state === "open" ? { id, partSize, stored: await storedOf(params, upload.file, partSize) } : undefined;
  } catch (error) {
    if (unknownOutcome(error)) throw error;
    return undefined;
  }
}

type Params = { header: { "X-Project-ID": string }; path: { id: string } };

// storedOf are the numbers of the parts that arrived with the bytes of this file.
async function storedOf(params: Params, file: File, partSize: number): Promise<Set<number>> {
  const stored = new Set<number>();
  let cursor: string | undefined;
  do {
    const page: Schemas["StoragePartList"] = await unwrap(api.GET("/api/v1/storage/uploads/{id}/parts", { params: { ...params, query: { cursor, limit: 200 } } }));
    for (const { number, sha256 } of page.items) {
      if ((await sumOf(partOf(file, number, partSize))) === sha256) stored.add(number);
    }
    cursor = page.next_cursor;
  } while (cursor !== undefined);
  return stored;
}

export const partOf = (file: File, number: number, partSize: number) => file.slice((number - 1) * partSize, number * partSize);

// Without a secure context the browser computes no sum, so that the part is sent again.
async function sumOf(part: Blob): Promise<string | undefined> {
  const sum = await (crypto.subtle as SubtleCrypto | undefined)?.digest("SHA-256", await part.arrayBuffer());
  return sum && Array.from(new Uint8Array(sum), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
