import { Anchor } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useTranslations } from "use-intl";
import { type Schemas, api, unwrap } from "../../api/client";
import { ApiError } from "../../api/error";
import { Command, Copy } from "../../components/system/copy";
import { Section } from "../../components/system/section";
import { Time } from "../../components/system/time";
import { keys, stale } from "../../query/keys";

type Release = Schemas["ReleaseProof"];

const textsOf = (value: unknown) => (Array.isArray(value) ? value.filter((each) => typeof each === "string") : []);

// read returns null where the allocation ended without a proof, such as one that never had a slot.
async function read(id: string): Promise<Release | null> {
  try {
    return await unwrap(api.GET("/api/v1/allocations/{id}/proof", { params: { path: { id } } }));
  } catch (error) {
    if (error instanceof ApiError && error.code === "proof_missing") return null;
    throw error;
  }
}

// Proof shows what the node signed at the end of an allocation. The file is verified without the server.
export function Proof({ allocation: { id, name } }: { allocation: Schemas["Allocation"] }) {
  const t = useTranslations("allocation");
  const query = useQuery({ queryKey: keys.proof(id), queryFn: () => read(id), staleTime: stale.catalogue });
  return (
    <Section title={t("proof")} query={query} isEmpty={(proof) => proof === null} empty={<p>{t("noProof")}</p>}>
      {(proof) => proof !== null && <Signed proof={proof} name={name} />}
    </Section>
  );
}

function Signed({ proof, name }: { proof: Release; name: string }) {
  const t = useTranslations("allocation");
  const none = t("none");
  const facts: [string, string][] = [
    [t("proofGpus"), proof.gpus.join(", ") || none],
    [t("proofScrubbed"), textsOf(proof.proof["scrubbed"]).join(", ") || none],
    [t("proofChecks"), textsOf(proof.proof["checks"]).join(", ") || none],
    [t("proofLeftovers"), textsOf(proof.proof["leftovers"]).join(", ") || none],
  ];
  const file = `proof-${name}.json`;
  return (
    <div className="stack">
      <dl className="facts">
        <dt>{t("provedAt")}</dt>
        <dd>
          <Time at={proof.proved_at} />
        </dd>
        {facts.map(([label, value]) => (
          <Fact key={label} label={label} value={value} />
        ))}
        <dt>{t("proofKey")}</dt>
        <dd>
          <code>{proof.public_key}</code> <Copy text={proof.public_key} label={t("copyProofKey")} />
        </dd>
      </dl>
      <Anchor href={`/api/v1/allocations/${encodeURIComponent(proof.allocation_id)}/proof`} download={file}>
        {t("downloadProof")}
      </Anchor>
      <Command text={`gpuaas alloc proof --verify --file ${file}`} label={t("copyVerify")} />
    </div>
  );
}

function Fact({ label, value }: { label: string; value: string }) {
  return (
    <>
      <dt>{label}</dt>
      <dd>{value}</dd>
    </>
  );
}
