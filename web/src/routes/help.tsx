import { Modal } from "@mantine/core";
import { useTranslations } from "use-intl";
import { useSession } from "../session/session";
import { keysOf, shortcuts } from "./shortcuts";

type Props = { close: () => void };

// Help lists the shortcuts of the screens that the user has, and those of every screen.
export default function Help({ close }: Props) {
  const t = useTranslations("help");
  const shell = useTranslations("shell");
  const { may } = useSession();
  const rows = [
    ...shortcuts.tools.map(({ keys, name }) => ({ keys, text: t(name) })),
    ...shortcuts.screens.filter(({ action }) => action === undefined || may(action)).map(({ keys, name }) => ({ keys, text: t("open", { screen: shell(name) }) })),
  ];
  return (
    <Modal opened onClose={close} title={t("title")} closeButtonProps={{ "aria-label": t("close") }}>
      <table className="keys">
        <thead>
          <tr>
            <th scope="col">{t("keys")}</th>
            <th scope="col">{t("effect")}</th>
          </tr>
        </thead>
        <tbody>
          {rows.map(({ keys, text }) => (
            <tr key={keys}>
              <td>
                {keysOf(keys).map((key) => (
                  <kbd key={key}>{key}</kbd>
                ))}
              </td>
              <td>{text}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <p className="dim">{t("off")}</p>
    </Modal>
  );
}
