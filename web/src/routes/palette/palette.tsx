import { Modal, TextInput } from "@mantine/core";
import { type KeyboardEvent, useEffect, useState } from "react";
import { useTranslations } from "use-intl";
import { type Item, actionsOf, useItems } from "./items";

type Props = { close: () => void };

// Palette goes to screens and objects, and runs the actions of this screen. The field keeps the focus, and names the
// active option to screen readers.
export default function Palette({ close }: Props) {
  const t = useTranslations("palette");
  const [text, setText] = useState("");
  const [active, setActive] = useState(0);
  const [actions] = useState(() => actionsOf(document.getElementById("main")));
  const [before] = useState(() => document.activeElement as HTMLElement | null);
  const { groups, searching } = useItems(text, actions);
  const items = groups.flatMap((group) => group.items);
  const chosen = items[Math.min(active, items.length - 1)];
  // Some browsers return a promise here, which an effect must not return.
  useEffect(() => void document.getElementById(chosen?.id ?? "")?.scrollIntoView?.({ block: "nearest" }), [chosen?.id]);
  const leave = () => {
    close();
    before?.focus();
  };
  // The dialog of an action takes the focus from its button, so the palette closes first.
  const run = (item: Item | undefined, newTab: boolean) => {
    if (item === undefined) return;
    leave();
    setTimeout(() => item.run(newTab));
  };
  const move = (step: number) => setActive((Math.min(active, items.length - 1) + step + items.length) % Math.max(items.length, 1));
  const onKey = (event: KeyboardEvent) => {
    const keys: Record<string, () => void> = { ArrowDown: () => move(1), ArrowUp: () => move(-1), Enter: () => run(chosen, event.ctrlKey || event.metaKey) };
    const action = event.nativeEvent.isComposing ? undefined : keys[event.key];
    if (action === undefined) return;
    event.preventDefault();
    action();
  };
  return (
    <Modal opened onClose={leave} withCloseButton={false} returnFocus={false} size="lg" title={t("title")}>
      <TextInput
        role="combobox"
        aria-label={t("title")}
        aria-expanded
        aria-autocomplete="list"
        aria-controls="palette"
        aria-activedescendant={chosen?.id}
        placeholder={t("hint")}
        autoComplete="off"
        data-autofocus
        value={text}
        onChange={(event) => {
          setText(event.currentTarget.value);
          setActive(0);
        }}
        onKeyDown={onKey}
      />
      <div id="palette" role="listbox" aria-label={t("results")} className="palette">
        {groups.map(({ name, items }) => (
          <div key={name} role="group" aria-label={t(name)}>
            <div className="dim" aria-hidden>
              {t(name)}
            </div>
            {items.map((item) => (
              <div key={item.id} id={item.id} role="option" aria-selected={item === chosen} onClick={(event) => run(item, event.ctrlKey || event.metaKey)} onAuxClick={() => run(item, true)}>
                {item.label}
              </div>
            ))}
          </div>
        ))}
      </div>
      <p role="status">{items.length > 0 ? "" : searching ? t("searching") : t("none")}</p>
    </Modal>
  );
}
