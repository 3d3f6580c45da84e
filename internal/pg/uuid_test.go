package pg_test

import (
	"slices"
	"testing"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pgtest"
)

func TestUUIDsGoThereAndBack(t *testing.T) {
	t.Parallel()
	db, id := pgtest.Clone(t), ids.New[ids.Allocation]()
	var plain uuid.UUID
	var back ids.Allocation
	var some, none *uuid.UUID
	var untouched ids.Node
	var all []ids.Allocation
	var holes []*uuid.UUID
	var text string
	err := db.QueryRow(t.Context(), `SELECT $1::uuid, $2::uuid, $3::uuid, $4::uuid, NULL::uuid, $5::uuid[], $6::uuid[], $7::uuid::text`,
		id, id.UUID, &id.UUID, (*uuid.UUID)(nil), []ids.Allocation{id, id}, []*uuid.UUID{nil, &id.UUID}, id).
		Scan(&plain, &back, &some, &none, &untouched, &all, &holes, &text)
	if err != nil {
		t.Fatal(err)
	}
	if plain != id.UUID || back != id || some == nil || *some != id.UUID || none != nil || untouched != (ids.Node{}) || text != id.String() {
		t.Errorf("got %v %v %v %v %v %v", plain, back, some, none, untouched, text)
	}
	if !slices.Equal(all, []ids.Allocation{id, id}) || len(holes) != 2 || holes[0] != nil || *holes[1] != id.UUID {
		t.Errorf("got %v %v", all, holes)
	}
	if err := db.QueryRow(t.Context(), `SELECT $1::text, $2::jsonb->>0`, id.String(), []ids.Allocation{id}).Scan(&text, &plain); err != nil || plain != id.UUID {
		t.Errorf("as text and as a document: %v, %v", plain, err)
	}
}
