import type { Schemas } from "../../api/client";

// unknown is the place of the endpoint where the profile of the environment does not name it.
export const unknown = "https://S3-ENDPOINT";

// variablesOf are the lines that a shell executes. aws-cli reads the first four, rclone those and the others.
export const variablesOf = ({ access_key_id, secret_access_key, endpoint = unknown }: Pick<Schemas["CreatedStorageKey"], "access_key_id" | "secret_access_key" | "endpoint">): string =>
  [
    `export AWS_ACCESS_KEY_ID=${access_key_id}`,
    `export AWS_SECRET_ACCESS_KEY=${secret_access_key}`,
    "export AWS_REGION=us-east-1",
    `export AWS_ENDPOINT_URL=${quoted(endpoint)}`,
    "export RCLONE_S3_PROVIDER=Other RCLONE_S3_ENV_AUTH=true RCLONE_S3_FORCE_PATH_STYLE=true",
    'export RCLONE_S3_ENDPOINT="$AWS_ENDPOINT_URL"',
  ].join("\n");

// quoted is a word of a shell. A folder can have every character but control characters.
const quoted = (word: string) => (/^[\w./:@%+=-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`);

// commandsOf list the files that a key can use. A bucket has at least three characters, so a shorter name of a project is
// replaced by its id.
export function commandsOf({ id, name }: Pick<Schemas["Project"], "id" | "name">, prefix?: string): { aws: string; rclone: string } {
  const path = `${name.length < 3 ? id : name}${prefix === undefined ? "" : `/${prefix}`}`;
  return { aws: `aws s3 ls ${quoted(`s3://${path}/`)}`, rclone: `rclone lsf ${quoted(`:s3:${path}`)}` };
}
