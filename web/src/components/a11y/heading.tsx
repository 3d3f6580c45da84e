import { type ReactNode, useEffect, useRef } from "react";
import { useTranslations } from "use-intl";

// Heading names the screen in the title of the window, and takes the focus when a screen opens, as a loaded page does.
export function Heading({ title, children }: { title: string; children?: ReactNode }) {
  const t = useTranslations("shell");
  const ref = useRef<HTMLHeadingElement>(null);
  useEffect(() => ref.current?.focus(), []);
  useEffect(() => {
    document.title = t("title", { page: title });
  }, [t, title]);
  return (
    <div className="row">
      <h1 ref={ref} tabIndex={-1}>
        {title}
      </h1>
      {children}
    </div>
  );
}
