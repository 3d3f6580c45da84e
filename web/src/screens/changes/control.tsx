import { useTranslations } from "use-intl";
import { type Schemas, api, unwrap } from "../../api/client";
import { Remove } from "../../components/system/remove";
import { keys } from "../../query/keys";
import { useSession } from "../../session/session";
import { Suspend } from "../desired/suspend";

const changed = [keys.changes, keys.drift, keys.ops, keys.gitSources];

// Control syncs, suspends or resumes a Git source.
export function Control({ source: { name, suspended } }: { source: Schemas["GitSource"] }) {
  const t = useTranslations("desired");
  const { may } = useSession();
  const params = (key: string) => ({ path: { name }, header: { "X-Idempotency-Key": key } });
  return (
    <div className="row">
      {may("syncGitSource") && (
        <Remove
          action={t("syncNow")}
          name={name}
          text={t("syncText", { name })}
          done={t("isSyncing", { name })}
          typed={false}
          run={(key) => unwrap(api.POST("/api/v1/admin/git-sources/{name}/sync", { params: params(key) }))}
          invalidates={changed}
        />
      )}
      {suspended === undefined && may("suspendGitSource") && (
        <Suspend name={name} text={t("sourceSuspendText", { name })} run={(body, key) => unwrap(api.POST("/api/v1/admin/git-sources/{name}/suspend", { params: params(key), body }))} invalidates={changed} />
      )}
      {suspended !== undefined && may("resumeGitSource") && (
        <Remove
          action={t("resume")}
          name={name}
          text={t("sourceResumeText", { name })}
          done={t("isResumed", { name })}
          typed={false}
          run={(key) => unwrap(api.POST("/api/v1/admin/git-sources/{name}/resume", { params: params(key) }))}
          invalidates={changed}
        />
      )}
    </div>
  );
}
