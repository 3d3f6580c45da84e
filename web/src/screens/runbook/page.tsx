import { Anchor } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import { type Block, type Inline, blocksOf, inlineOf } from "../../components/system/markdown";

// Page shows a runbook. Its first heading is that of the screen.
export function Page({ text }: { text: string }) {
  return (
    <article className="stack prose">
      {blocksOf(text).map((block, index) => (
        <Part key={index} block={block} />
      ))}
    </article>
  );
}

function Part({ block }: { block: Block }) {
  switch (block.kind) {
    case "heading":
      return block.level === 1 ? null : <h2>{block.text}</h2>;
    case "code":
      return (
        <div className="command">
          <code tabIndex={0}>{block.text}</code>
        </div>
      );
    case "list":
      return (
        <ul>
          {block.items.map((item, index) => (
            <li key={index}>
              <Text text={item} />
            </li>
          ))}
        </ul>
      );
    case "table":
      return <Table head={block.head} rows={block.rows} />;
    default:
      return (
        <p>
          <Text text={block.text} />
        </p>
      );
  }
}

function Table({ head, rows }: { head: string[]; rows: string[][] }) {
  return (
    <div className="scroll" tabIndex={0} role="region" aria-label={head.join(", ")}>
      <table>
        <thead>
          <tr>
            {head.map((cell) => (
              <th key={cell} scope="col">
                <Text text={cell} />
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((cells, row) => (
            <tr key={row}>
              {cells.map((cell, index) => (
                <td key={index}>
                  <Text text={cell} />
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

const Text = ({ text }: { text: string }) => (
  <>
    {inlineOf(text).map((part, index) => (
      <Span key={index} part={part} />
    ))}
  </>
);

// A link to another runbook stays in the portal. One to a page that no server has is a text.
function Span({ part }: { part: Inline }) {
  switch (part.kind) {
    case "code":
      return <code>{part.text}</code>;
    case "strong":
      return <strong>{part.text}</strong>;
    case "link": {
      const name = /^([a-z0-9-]+)\.md$/.exec(part.to)?.[1];
      const label = <Text text={part.text} />;
      if (name !== undefined) return <Link to="/runbooks/$name" params={{ name }}>{label}</Link>;
      return part.to.startsWith("https://") ? <Anchor href={part.to} rel="noreferrer">{label}</Anchor> : label;
    }
    default:
      return <>{part.text}</>;
  }
}
