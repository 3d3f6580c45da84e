import { Button } from "@mantine/core";
import { useAction } from "../../query/action";
import { Failure } from "./failure";

type Props = { text: string; file: string; type?: string; load: () => Promise<string> };

// Download stores what a call returns as a file. A link would send no header, and so no selected project.
export function Download({ text, file, type = "text/csv", load }: Props) {
  const action = useAction((_: null) => load(), []);
  return (
    <>
      <Button variant="default" loading={action.pending} onClick={() => action.start(null, (content) => save(file, type, content))}>
        {text}
      </Button>
      {action.error !== null && <Failure error={action.error} />}
    </>
  );
}

function save(file: string, type: string, content: string) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([content], { type }));
  link.download = file;
  link.click();
  URL.revokeObjectURL(link.href);
}
