import { useQuery } from "@tanstack/react-query";
import { useNavigate, useParams } from "@tanstack/react-router";
import { useTranslations } from "use-intl";
import { type Schemas, api, unwrap } from "../api/client";
import { Heading } from "../components/a11y/heading";
import { Command } from "../components/system/copy";
import { Remove } from "../components/system/remove";
import { Content } from "../components/system/section";
import { keys, stale } from "../query/keys";
import { useRecent } from "../session/recent";
import { unreported } from "../stream/unreported";
import { Replay, Rotate, Test, Toggle } from "./webhook/control";
import { Deliveries } from "./webhook/deliveries";
import { Edit } from "./webhook/edit";
import { About } from "./webhook/facts";

export function Webhook() {
  const { id } = useParams({ from: "/webhooks/$id" });
  const t = useTranslations("webhooks");
  const query = useQuery({
    queryKey: keys.webhook(id),
    queryFn: () => unwrap(api.GET("/api/v1/webhooks/{webhook_id}", { params: { path: { webhook_id: id } } })),
    staleTime: stale.list,
    refetchInterval: unreported.webhooks.every,
  });
  useRecent(query.data?.name);
  return (
    <div className="stack">
      <Heading title={query.data?.name ?? t("fallback")} />
      <Content query={query}>
        {(webhook) => (
          <div className="stack">
            <About webhook={webhook} />
            <div className="row">
              <Test webhook={webhook} />
              <Toggle webhook={webhook} />
              <Replay webhook={webhook} />
              <Delete webhook={webhook} />
            </div>
            <Rotate webhook={webhook} />
            <Edit webhook={webhook} />
            <Deliveries webhook={webhook} />
          </div>
        )}
      </Content>
      <Command text={`gpuaas webhook deliveries '${id.replaceAll("'", "")}'`} label={t("oneCommand")} />
    </div>
  );
}

function Delete({ webhook: { id, name, version } }: { webhook: Schemas["Webhook"] }) {
  const t = useTranslations("webhooks");
  const navigate = useNavigate();
  return (
    <Remove
      action={t("delete")}
      name={name}
      text={t("deleteText", { name })}
      done={t("deleted", { name })}
      run={(key) => unwrap(api.DELETE("/api/v1/webhooks/{webhook_id}", { params: { path: { webhook_id: id }, header: { "If-Match": `"${version}"`, "X-Idempotency-Key": key } } }))}
      invalidates={[keys.webhookList]}
      rereads={[keys.webhooks]}
      after={() => void navigate({ to: "/webhooks" })}
    />
  );
}
