import { Button, TextInput } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import { useTranslations } from "use-intl";
import { type Schemas, api, unwrap } from "../../api/client";
import { Command } from "../../components/system/copy";
import { type Column, CursorTable } from "../../components/system/cursor-table";
import { Failure } from "../../components/system/failure";
import { Content } from "../../components/system/section";
import { Time } from "../../components/system/time";
import { useWords } from "../../components/system/words";
import { minorOf, useFormat } from "../../i18n/format";
import { useAction } from "../../query/action";
import { keys, refetch } from "../../query/keys";
import type { Part } from "../../query/model";
import { useSession } from "../../session/session";
import { isWebAddress } from "./address";
import { Receipts } from "./receipts";

type Payment = Schemas["PaymentSession"];

type Props = { currency: string; payments: Part<Schemas["PaymentSessionList"]> };

export function TopUp({ currency, payments }: Props) {
  const t = useTranslations("billing");
  const { may } = useSession();
  return (
    <section className="panel stack">
      <h2>{t("topUp")}</h2>
      {currency !== "" && <Form currency={currency} />}
      {may("createPortalSession") && (payments.data?.items.length ?? 0) > 0 && <Receipts />}
      <h3>{t("topUps")}</h3>
      <Content query={payments}>{(first) => <Payments first={first} />}</Content>
      <Command text="gpuaas payment list" label={t("copyPayments")} />
    </section>
  );
}

function Form({ currency }: { currency: string }) {
  const t = useTranslations("billing");
  const [text, setText] = useState("");
  const [unsafe, setUnsafe] = useState(false);
  const action = useAction(
    (amount_minor: number, key) => unwrap(api.POST("/api/v1/payments/checkout-session", { params: { header: { "X-Idempotency-Key": key } }, body: { amount_minor, currency } })),
    [keys.billing],
  );
  const amount = minorOf(text, currency);
  const open = ({ url }: Payment) => {
    if (url !== undefined && isWebAddress(url)) location.assign(url);
    else setUnsafe(true);
  };
  return (
    <form
      className="stack"
      onSubmit={(event) => {
        event.preventDefault();
        if (amount !== undefined) action.start(amount, open);
      }}
    >
      <div className="row">
        <TextInput
          label={t("topUpAmount", { currency })}
          inputMode="decimal"
          value={text}
          error={text !== "" && amount === undefined ? t("topUpWrong") : undefined}
          onChange={(event) => setText(event.currentTarget.value)}
        />
        <Button type="submit" disabled={!amount} loading={action.pending}>
          {t("topUpAction")}
        </Button>
      </div>
      {unsafe && <p role="alert">{t("topUpUnsafe")}</p>}
      {action.error !== null && <Failure error={action.error} />}
    </form>
  );
}

// Payments link the screen of the outcome.
function Payments({ first }: { first: Schemas["PaymentSessionList"] }) {
  const t = useTranslations("billing");
  const format = useFormat();
  const word = useWords();
  const columns = useMemo(
    (): Column<Payment>[] => [
      { id: "at", header: t("occurred"), cell: ({ created_at }) => <Time at={created_at} /> },
      { id: "amount", header: t("amount"), cell: ({ amount }) => format.money(amount), number: true },
      { id: "state", header: t("state"), cell: ({ status, reason }) => (reason === undefined ? word(status) : t("stateWith", { state: word(status), reason })) },
      { id: "open", header: t("open"), cell: ({ id }) => <Link to="/payments/$id" params={{ id }}>{t("open")}</Link> },
    ],
    [t, format, word],
  );
  return (
    <CursorTable
      first={first}
      label={t("topUpList")}
      queryKey={keys.topups}
      load={(cursor) => unwrap(api.GET("/api/v1/payments/sessions", { params: { query: { cursor, limit: 20 } } }))}
      columns={columns}
      rowKey={({ id }) => id}
      refetchInterval={refetch.live}
      empty={<p>{t("noTopUps")}</p>}
    />
  );
}
