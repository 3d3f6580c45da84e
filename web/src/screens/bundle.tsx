import { useQuery } from "@tanstack/react-query";
import { useParams } from "@tanstack/react-router";
import { useTranslations } from "use-intl";
import { type Schemas, api, unwrap } from "../api/client";
import { Heading } from "../components/a11y/heading";
import { Command, Copy } from "../components/system/copy";
import { Download } from "../components/system/download";
import { Facts } from "../components/system/facts";
import { Content } from "../components/system/section";
import { Time } from "../components/system/time";
import { useWords } from "../components/system/words";
import { useFormat } from "../i18n/format";
import { keys, stale } from "../query/keys";
import { unreported } from "../stream/unreported";
import { partsOf } from "./evidence/parts";

type Bundle = Schemas["EvidenceBundle"];

const intervalOf = (status: Bundle["status"] | undefined) => status === "pending" && unreported.evidence.every;

// EvidenceBundle shows one bundle. The portal verifies none: a server cannot prove its own records.
export function EvidenceBundle() {
  const { id } = useParams({ from: "/evidence/$id" });
  const t = useTranslations("evidence");
  const query = useQuery({
    queryKey: keys.evidence(id),
    queryFn: () => unwrap(api.GET("/api/v1/evidence/{id}", { params: { path: { id } } })),
    staleTime: stale.list,
    refetchInterval: ({ state }) => intervalOf(state.data?.status),
  });
  return (
    <div className="stack">
      <Heading title={t("one")} />
      <Content query={query}>
        {(bundle) => (
          <div className="stack">
            <About bundle={bundle} />
            {bundle.file === undefined ? <p>{t(bundle.status === "failed" ? "noFile" : "notYet")}</p> : <Signed bundle={bundle} file={bundle.file} />}
          </div>
        )}
      </Content>
      <Command text={`gpuaas evidence get '${id.replaceAll("'", "")}' -f bundle.json --key-file evidence.keys`} label={t("getCommand")} />
    </div>
  );
}

function About({ bundle }: { bundle: Bundle }) {
  const t = useTranslations("evidence");
  const word = useWords();
  const format = useFormat();
  const { about, number, sha256: digest, size_bytes: size, signed_at: signed } = bundle;
  return (
    <section className="panel">
      <h2>{t("facts")}</h2>
      <Facts
        facts={[
          [t("about"), <>{about} <Copy text={about} label={t("copyAbout")} /></>],
          [t("kind"), word(bundle.kind)],
          [t("status"), word(bundle.status)],
          [t("failure"), bundle.failure_message],
          [t("requestedBy"), bundle.requested_by],
          [t("created"), <Time at={bundle.created_at} />],
          [t("signedAt"), signed && <Time at={signed} />],
          [t("number"), number],
          [t("size"), size === undefined ? undefined : format.bytes(size)],
          [t("digest"), digest && <><code>{digest}</code> <Copy text={digest} label={t("copyDigest")} /></>],
        ]}
      />
    </section>
  );
}

function Signed({ bundle: { key_id: kid, public_key: key }, file }: { bundle: Bundle; file: string }) {
  const t = useTranslations("evidence");
  const word = useWords();
  const parts = partsOf(file);
  return (
    <section className="panel stack">
      <h2>{t("file")}</h2>
      <p>{t("fileText")}</p>
      {parts.length > 0 && (
        <dl className="facts">
          {parts.map(({ name, count }) => (
            <Part key={name} name={word(name)} count={count} />
          ))}
        </dl>
      )}
      <div className="row">
        <Download text={t("download")} file="bundle.json" type="application/json" load={() => Promise.resolve(file)} />
        {kid !== undefined && key !== undefined && <Download text={t("downloadKey")} file="evidence.keys" type="text/plain" load={() => Promise.resolve(`${kid} ${key}\n`)} />}
      </div>
      <Command text="gpuaas evidence verify bundle.json --key evidence.keys" label={t("verifyCommand")} />
    </section>
  );
}

function Part({ name, count }: { name: string; count: number }) {
  const t = useTranslations("evidence");
  return (
    <>
      <dt>{name}</dt>
      <dd>{t("records", { count })}</dd>
    </>
  );
}
