import { Link } from "@tanstack/react-router";
import { useTranslations } from "use-intl";

// Parents links the folders above the one that is shown.
export function Parents({ project, path }: { project: string; path: string }) {
  const t = useTranslations("files");
  const names = path === "" ? [] : path.split("/");
  return (
    <nav aria-label={t("parents")} className="row">
      <Link to="/files" search={{ project }}>{t("outermost")}</Link>
      {names.map((name, index) => {
        const upTo = names.slice(0, index + 1).join("/");
        return (
          <span key={upTo}>
            {"/ "}
            {index === names.length - 1 ? <span aria-current="page">{name}</span> : <Link to="/files" search={{ project, path: upTo }}>{name}</Link>}
          </span>
        );
      })}
    </nav>
  );
}
