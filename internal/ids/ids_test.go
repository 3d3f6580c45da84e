package ids_test

import (
	"encoding/json"
	"testing"

	"github.com/gpuaas/gpuaas/internal/ids"
)

func TestIDsSurviveJSON(t *testing.T) {
	t.Parallel()

	want := ids.New[ids.Node]()
	text, err := json.Marshal(map[string]ids.Node{"id": want})
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]ids.Node
	if err := json.Unmarshal(text, &got); err != nil || got["id"] != want {
		t.Errorf("%s became %v (%v)", text, got, err)
	}
}
