import { useTranslations } from "use-intl";
import type { Schemas } from "../../api/client";
import { Secret } from "../../components/system/secret";
import { commandsOf, variablesOf } from "./tools";
import { Command } from "../../components/system/copy";

type Props = { created: Schemas["CreatedStorageKey"]; project: Pick<Schemas["Project"], "id" | "name">; close: () => void };

// Variables shows a new access key as the variables that S3 tools read. The commands use them and have no secret.
export function Variables({ created, project, close }: Props) {
  const t = useTranslations("storageKeys");
  const commands = commandsOf(project, created.prefix);
  return (
    <Secret name={created.name} value={variablesOf(created)} close={close}>
      <p>{t(created.endpoint === undefined ? "endpoint" : "commands")}</p>
      <Command text={commands.aws} label={t("copyAws")} />
      <Command text={commands.rclone} label={t("copyRclone")} />
    </Secret>
  );
}
