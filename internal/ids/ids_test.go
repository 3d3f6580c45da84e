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

func TestURNRoundTrip(t *testing.T) {
	t.Parallel()

	const text = "core42:aicloud:eu-1:-:-:node:0199"
	u, err := ids.ParseURN(text)
	if err != nil || u.String() != text {
		t.Errorf("%q became %q (%v)", text, u, err)
	}
	for _, bad := range []string{"", "a:b", "a:b:c:d:e:f:", text + ":x"} {
		if _, err := ids.ParseURN(bad); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}
