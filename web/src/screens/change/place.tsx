import { Anchor } from "@mantine/core";
import { useTranslations } from "use-intl";
import type { Schemas } from "../../api/client";
import { isWebAddress } from "../billing/address";

type Source = Schemas["GitSource"] | undefined;
type Props = { path: string; line: number; commit: string; source: Source };

// The folder of a file at a commit, by kind of forge.
const folders: Record<string, string> = { github: "blob", gitlab: "-/blob", gitea: "src/commit" };

// addressOf is the page of a line in the forge, or undefined: without a forge, and for an address that is none of the web.
export function addressOf({ path, line, commit, source }: Props): string | undefined {
  const forge = source?.forge;
  const folder = folders[forge?.kind ?? ""];
  if (forge === undefined || folder === undefined || commit === "") return undefined;
  const encoded = (text: string) => text.split("/").map(encodeURIComponent).join("/");
  const address = `${forge.url.replace(/\/+$/, "")}/${encoded(forge.project)}/${folder}/${encodeURIComponent(commit)}/${encoded(path)}#L${line}`;
  return isWebAddress(address) ? address : undefined;
}

// Place is a line of a file, with a link to the forge of its source.
export function Place(props: Props) {
  const t = useTranslations("change");
  const { path, line } = props;
  const address = addressOf(props);
  const text = t("place", { path, line });
  if (address === undefined) return <>{text}</>;
  return (
    <Anchor href={address} rel="noreferrer">
      {text}
    </Anchor>
  );
}
