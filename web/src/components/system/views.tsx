import { Button, TextInput } from "@mantine/core";
import { Link, useLocation, useSearch } from "@tanstack/react-router";
import { useState } from "react";
import { useTranslations } from "use-intl";
import { useSession } from "../../session/session";
import { type View, longestName, storeViews, viewsOf } from "../../session/views";

const textsOf = (search: object) => Object.fromEntries(Object.entries(search).filter((each): each is [string, string] => typeof each[1] === "string"));

// Views are the saved filters and columns of a list. They stay in this browser. Where it blocks its storage, they stay
// until the next load.
export function Views({ screen }: { screen: string }) {
  const t = useTranslations("views");
  const user = useSession().me.user?.id ?? "";
  const [views, setViews] = useState(() => viewsOf(user, screen));
  const [stored, setStored] = useState(true);
  const search = textsOf(useSearch({ strict: false }));
  const change = (next: View[]) => {
    setViews(next);
    setStored(storeViews(user, screen, next));
  };
  const others = (name: string) => views.filter((each) => each.name !== name);
  return (
    <details>
      <summary>{t("title", { count: views.length })}</summary>
      <div className="stack">
        {views.length > 0 && (
          <ul>
            {views.map((view) => (
              <Saved key={view.name} view={view} remove={() => change(others(view.name))} />
            ))}
          </ul>
        )}
        <Save save={(name) => change([...others(name), { name, search }])} />
        {!stored && <p role="alert">{t("notStored")}</p>}
      </div>
    </details>
  );
}

function Saved({ view: { name, search }, remove }: { view: View; remove: () => void }) {
  const t = useTranslations("views");
  const { pathname } = useLocation();
  return (
    <li>
      <Link to={pathname as never} search={search as never}>
        {name}
      </Link>{" "}
      <Button variant="default" size="compact-sm" aria-label={t("removeOf", { name })} onClick={remove}>
        {t("remove")}
      </Button>
    </li>
  );
}

function Save({ save }: { save: (name: string) => void }) {
  const t = useTranslations("views");
  const [name, setName] = useState("");
  return (
    <form
      className="row"
      onSubmit={(event) => {
        event.preventDefault();
        save(name.trim());
        setName("");
      }}
    >
      <TextInput label={t("name")} maxLength={longestName} autoComplete="off" value={name} onChange={(event) => setName(event.currentTarget.value)} />
      <Button type="submit" variant="default" disabled={name.trim() === ""}>
        {t("save")}
      </Button>
    </form>
  );
}
