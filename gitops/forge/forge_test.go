package forge_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	devforge "github.com/gpuaas/gpuaas/dev/forge"
	"github.com/gpuaas/gpuaas/gitops/forge"
	"github.com/gpuaas/gpuaas/internal/errs"
)

// TestOpenPullsOfAllPages: only those against the branch, and each can be fetched.
func TestOpenPullsOfAllPages(t *testing.T) {
	t.Parallel()
	eachForge(t, func(t *testing.T, kind forge.Kind) {
		w := setup(t, kind, func(c *devforge.Config) { c.PageSize = 2 })
		heads := map[int]string{}
		for _, name := range many(5) {
			number, head := w.pull(name)
			heads[number] = head
		}
		w.push("release", "r.yaml", "r")
		for _, p := range []devforge.Pull{
			{From: "change-0", Into: "release", Title: "elsewhere", Author: "ada"},
			{From: heads[1], Into: "main", Title: "from afar", Author: "eve", Fork: true},
		} {
			if _, err := w.double.Open(t.Context(), p); err != nil {
				t.Fatal(err)
			}
		}
		w.double.Close(2)

		pulls, err := w.forge.Open(t.Context(), "main")
		if err != nil {
			t.Fatal(err)
		}
		var numbers []int
		for _, p := range pulls {
			numbers = append(numbers, p.Number)
			if p.Fork != (p.Number == 7) {
				t.Errorf("%d: fork %v", p.Number, p.Fork)
			}
			if p.Number < 6 && (p.Head != heads[p.Number] || p.Author != "ada" || !strings.HasPrefix(p.Title, "Change ") || p.URL == "") {
				t.Errorf("%+v, want %s", p, heads[p.Number])
			}
			w.git("fetch", "--quiet", "origin", p.Ref)
			if got := w.git("rev-parse", "FETCH_HEAD"); got != p.Head {
				t.Errorf("%s leads to %s, want %s", p.Ref, got, p.Head)
			}
		}
		if want := []int{7, 5, 4, 3, 1}; !equal(numbers, want) {
			t.Errorf("open are %v, want %v", numbers, want)
		}
	})
}

func equal(a, b []int) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

func TestPushMovesThePull(t *testing.T) {
	t.Parallel()
	eachForge(t, func(t *testing.T, kind forge.Kind) {
		w := setup(t, kind, nil)
		w.pull("change")
		head := w.push("change", "more.yaml", "more")
		pulls, err := w.forge.Open(t.Context(), "main")
		if err != nil || len(pulls) != 1 || pulls[0].Head != head {
			t.Errorf("%+v, %v, want head %s", pulls, err, head)
		}
	})
}

func TestStatesAreSaid(t *testing.T) {
	t.Parallel()
	eachForge(t, func(t *testing.T, kind forge.Kind) {
		w := setup(t, kind, nil)
		_, head := w.pull("change")
		for _, state := range []forge.State{forge.Pending, forge.Pending, forge.Success, forge.Success, forge.Failure, forge.Errored, forge.Pending} {
			s := forge.Status{Context: forge.ContextPlan, State: state, Text: "two nodes\nare \x1b[31mdrained", URL: "https://gpuaas.example/changes/1"}
			if err := w.forge.Status(t.Context(), head, s); err != nil {
				t.Fatalf("%s: %v", state, err)
			}
			want := string(state)
			if kind == forge.GitLab && (state == forge.Failure || state == forge.Errored) {
				want = "failed"
			}
			got := w.double.Statuses(head)[forge.ContextPlan]
			if got != (devforge.Status{Context: forge.ContextPlan, State: want, Text: "two nodes are [31mdrained", URL: s.URL}) {
				t.Errorf("%s: the forge shows %+v", state, got)
			}
		}
	})
}

// TestLongWordsAreCut checks that a long description is shortened. The forge would reject it
// otherwise.
func TestLongWordsAreCut(t *testing.T) {
	t.Parallel()
	limits := map[forge.Kind]int{forge.GitHub: 140, forge.GitLab: 255, forge.Gitea: 255}
	eachForge(t, func(t *testing.T, kind forge.Kind) {
		w := setup(t, kind, nil)
		_, head := w.pull("change")
		long := strings.Repeat("ß", 1000)
		if err := w.forge.Status(t.Context(), head, forge.Status{Context: forge.ContextSync, State: forge.Success, Text: long, URL: "https://gpuaas.example/" + strings.Repeat("x", 300)}); err != nil {
			t.Fatal(err)
		}
		got := w.double.Statuses(head)[forge.ContextSync]
		if n := utf8.RuneCountInString(got.Text); n != limits[kind] || !strings.HasSuffix(got.Text, "…") {
			t.Errorf("%d characters: %s", n, got.Text)
		}
		if kind == forge.GitLab && got.URL != "" {
			t.Errorf("GitLab accepts no address of %d characters", len(got.URL))
		}
	})
}

func TestUnknownCommitIsARejection(t *testing.T) {
	t.Parallel()
	eachForge(t, func(t *testing.T, kind forge.Kind) {
		w := setup(t, kind, nil)
		err := w.forge.Status(t.Context(), strings.Repeat("a", 40), forge.Status{Context: forge.ContextPlan, State: forge.Success})
		want := errs.NotFound
		if kind == forge.GitHub {
			want = errs.ProviderFailed // 422
		}
		if errs.CodeOf(err) != want {
			t.Errorf("%v, want %s", err, want)
		}
	})
}

func comment(pull int, id, body string) forge.Comment {
	return forge.Comment{Pull: pull, RemoteID: id, Marker: forge.Marker("fleet"), Body: body}
}

func (w *fixture) comment(c forge.Comment) (id string) {
	w.Helper()
	id, err := w.forge.Comment(w.Context(), c)
	if err != nil || id == "" {
		w.Fatalf("commenting: %q, %v", id, err)
	}
	return id
}

// TestCommentIsEditedInPlace: one comment of ours for each source, whatever was lost.
func TestCommentIsEditedInPlace(t *testing.T) {
	t.Parallel()
	eachForge(t, func(t *testing.T, kind forge.Kind) {
		w := setup(t, kind, func(c *devforge.Config) { c.PageSize = 2 })
		pull, _ := w.pull("change")
		for _, text := range many(3) {
			w.double.Comment(pull, "ada", text)
		}
		// Another user quotes our comment with its marker, before ours and in the same form.
		w.double.Comment(pull, "eve", forge.Marker("fleet")+"\nall is well")
		w.double.Comment(pull, "gpuaas-bot", "not a plan: "+forge.Marker("fleet"))

		first := w.comment(comment(pull, "", "plan one"))
		if again := w.comment(comment(pull, first, "plan two")); again != first {
			t.Errorf("edited %s, want %s", again, first)
		}
		if found := w.comment(comment(pull, "", "plan three")); found != first {
			t.Errorf("found %s, want %s", found, first)
		}
		other := comment(pull, "", "another source's")
		other.Marker = forge.Marker("catalogue")
		if found := w.comment(other); found == first {
			t.Error("two sources share a comment")
		}
		all := w.double.Comments(pull)
		if len(all) != 7 {
			t.Fatalf("%d comments, want 7: %+v", len(all), all)
		}
		if got := all[5]; got.Body != forge.Marker("fleet")+"\nplan three" || got.Author != "gpuaas-bot" || got.Edits != 2 {
			t.Errorf("our comment is %+v", got)
		}
		for i, want := range []string{"change-0", "change-1", "change-2", forge.Marker("fleet") + "\nall is well"} {
			if all[i].Body != want || all[i].Edits != 0 {
				t.Errorf("another user's comment is now %+v", all[i])
			}
		}
	})
}

// TestMovedSourceEditsNobodysComment checks that the id of our comment at the old forge, which
// identifies another user's comment at the new one, is not used there.
func TestMovedSourceEditsNobodysComment(t *testing.T) {
	t.Parallel()
	eachForge(t, func(t *testing.T, kind forge.Kind) {
		before, after := setup(t, kind, nil), setup(t, kind, nil)
		pull, _ := before.pull("change")
		after.pull("change")
		id := before.comment(comment(pull, "", "plan one"))
		after.double.Comment(pull, "gpuaas-bot", "a user's comment under the robot's name")
		after.comment(comment(pull, id, "plan two"))
		if all := after.double.Comments(pull); len(all) != 2 || all[0].Edits != 0 {
			t.Errorf("%+v", all)
		}
	})
}

func TestDeletedCommentIsMadeAgain(t *testing.T) {
	t.Parallel()
	eachForge(t, func(t *testing.T, kind forge.Kind) {
		w := setup(t, kind, nil)
		pull, _ := w.pull("change")
		first := w.comment(comment(pull, "", "plan one"))
		w.double.Delete(w.double.Comments(pull)[0].ID)
		second := w.comment(comment(pull, first, "plan two"))
		if all := w.double.Comments(pull); second == first || len(all) != 1 || !strings.Contains(all[0].Body, "plan two") {
			t.Errorf("%s after %s: %+v", second, first, all)
		}
	})
}

// TestLostAnswerMakesOneComment checks a forge that creates the comment and fails before it
// responds.
func TestLostAnswerMakesOneComment(t *testing.T) {
	t.Parallel()
	eachForge(t, func(t *testing.T, kind forge.Kind) {
		w := setup(t, kind, nil)
		pull, _ := w.pull("change")
		w.double.InjectFault(devforge.Fault{Method: "POST", Status: 502, Body: "<html>", Times: 1, Done: true})
		if _, err := w.forge.Comment(t.Context(), comment(pull, "", "plan one")); errs.CodeOf(err) != errs.Unavailable {
			t.Fatalf("%v, want unavailable", err)
		}
		w.comment(comment(pull, "", "plan one, again"))
		if all := w.double.Comments(pull); len(all) != 1 || !strings.Contains(all[0].Body, "again") {
			t.Errorf("%+v", all)
		}
	})
}

// TestNamelessTokenMakesANewComment checks that a token without the right to read its own user
// never edits an existing comment.
func TestNamelessTokenMakesANewComment(t *testing.T) {
	t.Parallel()
	eachForge(t, func(t *testing.T, kind forge.Kind) {
		w := setup(t, kind, nil)
		pull, _ := w.pull("change")
		w.double.Comment(pull, "eve", forge.Marker("fleet")+"\nmine")
		w.double.InjectFault(devforge.Fault{Path: "/user", Status: 403, Body: `{"message":"Resource not accessible by integration"}`, Times: 1})
		id := w.comment(comment(pull, "", "plan one"))
		w.comment(comment(pull, id, "plan two"))
		if all := w.double.Comments(pull); len(all) != 2 || all[0].Edits != 0 || !strings.Contains(all[1].Body, "plan two") {
			t.Errorf("%+v", all)
		}
	})
}
