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

export function CreateProject() {
  const t = useTranslations("projects");
  const toast = useToast();
  const navigate = useNavigate();
  const [draft, change, done] = useDraft("project", { name: "", description: "" });
  const action = useAction(
    (body: Schemas["ProjectRequest"], key) => unwrap(api.POST("/api/v1/projects", { params: { header: { "X-Idempotency-Key": key } }, body })),
    [keys.projects, keys.overview],
  );
  const create = () =>
    action.start({ name: draft.name, description: draft.description }, ({ id, name }, shown) => {
      done();
      toast(t("isCreated", { name }));
      if (shown) void navigate({ to: "/projects/$id", params: { id } });
    });
  return (
    <form
      className="panel stack"
      onSubmit={(event) => {
        event.preventDefault();
        if (isLabel(draft.name)) create();
      }}
    >
      <h2>{t("create")}</h2>
      <TextInput
        label={t("name")}
        maxLength={63}
        required
        autoComplete="off"
        value={draft.name}
        error={draft.name === "" || isLabel(draft.name) ? undefined : t("nameWrong")}
        onChange={(event) => change({ name: event.currentTarget.value })}
      />
      <TextInput label={t("description")} maxLength={1_000} value={draft.description} onChange={(event) => change({ description: event.currentTarget.value })} />
      {action.error !== null && <Failure error={action.error} />}
      <Button type="submit" disabled={!isLabel(draft.name)} loading={action.pending}>
        {t("createAction")}
      </Button>
    </form>
  );
}
