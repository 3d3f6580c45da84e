import { api, unwrap } from "../../api/client";

type Sending = { project: string; path: string; file: File; replace: boolean; progress: (sent: number) => void };

// upload sends a file. Without replace, an existing file is an error.
export async function upload({ project, path, file, replace, progress }: Sending) {
  const absent = replace ? {} : { "If-None-Match": "*" as const };
  await unwrap(
    api.PUT("/api/v1/storage/upload", {
      params: { query: { path }, header: { "X-Project-ID": project, ...absent } },
      headers: { "Content-Type": file.type === "" ? "application/octet-stream" : file.type },
      body: file as unknown as string,
      bodySerializer: (body) => body,
    }),
  );
  progress(file.size);
}
