import { Button, NativeSelect, TextInput } from "@mantine/core";
import { useState } from "react";
import { useTranslations } from "use-intl";
import { type Schemas, api, unwrap } from "../../api/client";
import { Command } from "../../components/system/copy";
import { Failure } from "../../components/system/failure";
import { Secret } from "../../components/system/secret";
import { useToast } from "../../components/system/toasts";
import { useAction } from "../../query/action";
import { keys } from "../../query/keys";
import { isWebAddress } from "../billing/address";
import { secondsOf } from "../keys/check";

type Account = Pick<Schemas["ServiceAccount"], "id" | "name">;
type Form = "secret" | "jobs";

// CreateCredential creates a secret, or a credential without one for the jobs of a forge, which use the tokens of the forge.
export function CreateCredential({ account }: { account: Account }) {
  const t = useTranslations("accounts");
  const common = useTranslations("keys");
  const toast = useToast();
  const [form, setForm] = useState<Form>("secret");
  const [days, setDays] = useState("90");
  const [jobs, setJobs] = useState({ issuer: "", subject: "" });
  const [secret, setSecret] = useState("");
  const seconds = secondsOf(days);
  const action = useAction(
    (body: Schemas["CredentialRequest"], key) =>
      unwrap(api.POST("/api/v1/service-accounts/{service_account_id}/credentials", { params: { path: { service_account_id: account.id }, header: { "X-Idempotency-Key": key } }, body })),
    [keys.credentials(account.id)],
  );
  const complete = !Number.isNaN(seconds) && (form === "secret" || (isWebAddress(jobs.issuer) && jobs.subject !== ""));
  const create = () =>
    action.start({ ...(seconds !== undefined && { ttl_seconds: seconds }), ...(form === "jobs" && { federation: jobs }) }, (credential, shown) => {
      setSecret(credential.secret ?? "");
      setJobs({ issuer: "", subject: "" });
      toast(shown || credential.secret === undefined ? t("credentialCreated") : t("credentialUnseen", { name: account.name }));
    });
  const close = () => {
    setSecret("");
    action.reset();
  };
  // A second credential would replace the secret, so the form waits.
  if (secret !== "") return <Secret name={account.name} value={secret} close={close} />;
  return (
    <form
      className="stack"
      onSubmit={(event) => {
        event.preventDefault();
        if (complete) create();
      }}
    >
      <h3>{t("createCredential")}</h3>
      <NativeSelect
        label={t("form")}
        value={form}
        onChange={(event) => setForm(event.currentTarget.value as Form)}
        data={[
          { value: "secret", label: t("formSecret") },
          { value: "jobs", label: t("formJobs") },
        ]}
      />
      {form === "jobs" && <Jobs account={account} jobs={jobs} change={setJobs} />}
      <TextInput
        label={common("days")}
        description={common("daysNote")}
        inputMode="numeric"
        value={days}
        error={Number.isNaN(seconds) ? common("daysWrong") : undefined}
        onChange={(event) => setDays(event.currentTarget.value)}
      />
      {action.error !== null && <Failure error={action.error} />}
      <Button type="submit" disabled={!complete} loading={action.pending}>
        {t("createCredentialAction")}
      </Button>
    </form>
  );
}

type JobsProps = { account: Account; jobs: Schemas["Federation"]; change: (jobs: Schemas["Federation"]) => void };

function Jobs({ account, jobs, change }: JobsProps) {
  const t = useTranslations("accounts");
  return (
    <>
      <TextInput
        label={t("issuer")}
        description={t("issuerNote")}
        inputMode="url"
        maxLength={256}
        required
        value={jobs.issuer}
        error={jobs.issuer === "" || isWebAddress(jobs.issuer) ? undefined : t("issuerWrong")}
        onChange={(event) => change({ ...jobs, issuer: event.currentTarget.value.trim() })}
      />
      <TextInput label={t("subject")} description={t("subjectNote")} maxLength={255} required value={jobs.subject} onChange={(event) => change({ ...jobs, subject: event.currentTarget.value.trim() })} />
      <p>{t("pipeline")}</p>
      <Command text={`GPUAAS_SERVICE_ACCOUNT=${account.id}`} label={t("copyPipeline")} />
    </>
  );
}
