import type { ReactNode } from "react";
import { useColumnChoice } from "./columns";
import type { Column } from "./cursor-table";
import { Views } from "./views";

// useListControls returns the visible columns of the list of a screen, and the controls that choose them and save its views.
export function useListControls<Row>(screen: string, all: Column<Row>[]): [Column<Row>[], ReactNode] {
  const [columns, choice] = useColumnChoice(all);
  const controls = (
    <div className="row">
      <Views screen={screen} />
      {choice}
    </div>
  );
  return [columns, controls];
}
