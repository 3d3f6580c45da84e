import { Button } from "@mantine/core";
import { useAction } from "../../query/action";
import { Failure } from "./failure";

type Props = { text: string; file: string; load: () => Promise<string> };

// Download stores what a call returns as a file. A link would send no header, and so no selected project.
export function Download({ text, file, load }: Props) {
  const action = useAction((_: null) => load(), []);
  return (
    <>
      <Button variant="default" loading={action.pending} onClick={() => action.start(null, (content) => save(file, content))}>
        {text}
      </Button>
      {action.error !== null && <Failure error={action.error} />}
    </>
  );
}

function save(file: string, content: string) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([content], { type: "text/csv" }));
  link.download = file;
  link.click();
  URL.revokeObjectURL(link.href);
}
