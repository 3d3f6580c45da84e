import { Button, TextInput } from "@mantine/core";
import { useNavigate } from "@tanstack/react-router";
import { useTranslations } from "use-intl";
import { type Schemas, api, unwrap } from "../../api/client";
import { Failure } from "../../components/system/failure";
import { useToast } from "../../components/system/toasts";
import { useAction } from "../../query/action";
import { keys } from "../../query/keys";
import { useDraft } from "../../session/draft";
import { isLabel } from "../launch/request";

const empty = { name: "", sku: "", region: "", gpus: "8", address: "" };

const isCount = (text: string) => /^\d{1,4}$/.test(text) && Number(text) >= 1 && Number(text) <= 1_024;

// CreateNode declares a node that the API owns. One of Git is declared in its file.
export function CreateNode() {
  const t = useTranslations("nodes");
  const toast = useToast();
  const navigate = useNavigate();
  const [draft, change, done] = useDraft("node", empty);
  const action = useAction((body: Schemas["NodeRequest"], key) => unwrap(api.POST("/api/v1/admin/nodes", { params: { header: { "X-Idempotency-Key": key } }, body })), [keys.fleet]);
  const { name, sku, region, gpus, address } = draft;
  const complete = [name, sku, region].every(isLabel) && isCount(gpus);
  const create = () =>
    action.start({ name, sku, region, gpus: Number(gpus), ...(address.trim() !== "" && { address: address.trim() }) }, (_, shown) => {
      done();
      toast(t("isCreated", { name }));
      if (shown) void navigate({ to: "/fleet/$name", params: { name } });
    });
  const label = (field: "name" | "sku" | "region") => (
    <TextInput
      label={t(field)}
      maxLength={63}
      autoComplete="off"
      value={draft[field]}
      error={draft[field] === "" || isLabel(draft[field]) ? undefined : t("nameWrong")}
      onChange={(event) => change({ [field]: event.currentTarget.value })}
    />
  );
  return (
    <form
      className="panel stack"
      onSubmit={(event) => {
        event.preventDefault();
        if (complete) create();
      }}
    >
      <h2>{t("create")}</h2>
      <p>{t("createNote")}</p>
      <div className="row">
        {label("name")}
        {label("sku")}
        {label("region")}
        <TextInput label={t("gpus")} inputMode="numeric" value={gpus} error={isCount(gpus) ? undefined : t("gpusWrong")} onChange={(event) => change({ gpus: event.currentTarget.value })} />
        <TextInput label={t("address")} description={t("addressNote")} maxLength={260} autoComplete="off" value={address} onChange={(event) => change({ address: event.currentTarget.value })} />
        <Button type="submit" disabled={!complete} loading={action.pending}>
          {t("createAction")}
        </Button>
      </div>
      {action.error !== null && <Failure error={action.error} />}
    </form>
  );
}
