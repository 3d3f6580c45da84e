import { Button } from "@mantine/core";
import { useState } from "react";
import { useTranslations } from "use-intl";
import { type Schemas, api, unwrap } from "../../api/client";
import { Command } from "../../components/system/copy";
import { Failure } from "../../components/system/failure";
import { Secret } from "../../components/system/secret";
import { useAction } from "../../query/action";
import { keys } from "../../query/keys";

// Enrol creates the token of a first contact. The server returns it once, so no query has it.
export function Enrol({ node: { name } }: { node: Schemas["Node"] }) {
  const t = useTranslations("service");
  const [token, setToken] = useState<Schemas["EnrolmentToken"]>();
  const action = useAction(
    (_: null, key) => unwrap(api.POST("/api/v1/admin/nodes/{name}/enrolment-token", { params: { path: { name }, header: { "X-Idempotency-Key": key } }, body: {} })),
    [keys.node(name)],
  );
  const close = () => {
    setToken(undefined);
    action.reset();
  };
  return (
    <section className="panel stack">
      <h2>{t("enrol")}</h2>
      <p>{t("enrolText", { name })}</p>
      {token === undefined ? (
        <Button variant="default" loading={action.pending} onClick={() => action.start(null, setToken)}>
          {t("enrolAction")}
        </Button>
      ) : (
        <>
          <Secret name={t("enrolName", { name })} value={token.token} close={close} />
          {token.install !== undefined && (
            <>
              <p>{t("enrolLine")}</p>
              <Command text={token.install.command} label={t("enrolLine")} />
            </>
          )}
        </>
      )}
      {action.error !== null && <Failure error={action.error} />}
    </section>
  );
}
