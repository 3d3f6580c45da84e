import { useQuery } from "@tanstack/react-query";
import { useTranslations } from "use-intl";
import { api, unwrap } from "../api/client";
import { Heading } from "../components/a11y/heading";
import { Content } from "../components/system/section";
import { keys, stale } from "../query/keys";
import { partOf } from "../query/model";
import { ApiKeys } from "./keys/api";
import { SshKeys } from "./keys/ssh";

export function Keys() {
  const t = useTranslations("keys");
  const query = useQuery({ queryKey: keys.access, queryFn: () => unwrap(api.GET("/api/v3/access/me")), staleTime: stale.list });
  return (
    <div className="stack">
      <Heading title={t("title")} />
      <Content query={query}>
        {({ ssh_keys, api_keys }) => (
          <div className="stack">
            <SshKeys part={partOf(ssh_keys, query.refetch)} />
            <ApiKeys part={partOf(api_keys, query.refetch)} />
          </div>
        )}
      </Content>
    </div>
  );
}
