package main

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/desired"
)

// One grammar for all that is named: KIND/NAME. Kinds are known in any case, in
// the plural, and by the short words below.

// What has a name like an object but is declared nowhere.
const (
	wordSource   = "source"
	wordRevision = "revision"
	wordPlan     = "plan"
	wordDrift    = "drift"
)

// shortWords are the names of kinds that are no form of the kind itself.
var shortWords = map[string]string{
	"alloc": string(oapi.KindAllocation), "allocs": string(oapi.KindAllocation), "image": string(oapi.KindOSImage), "images": string(oapi.KindOSImage),
	"env": string(oapi.KindEnvironment), "envs": string(oapi.KindEnvironment), "policies": string(oapi.KindPolicy),
	"git-source": wordSource, "git-sources": wordSource, "rev": wordRevision, "revs": wordRevision, "drifts": wordDrift,
}

// kindWords are the words that help and completion give.
func kindWords() []string {
	words := make([]string, 0, len(desired.Kinds()))
	for _, kind := range desired.Kinds() {
		words = append(words, strings.ToLower(string(kind)))
	}
	return words
}

// wordOf finds what a person means by the part before the slash: a kind, or one of
// the words above; empty when neither.
func wordOf(text string) string {
	text = strings.ToLower(text)
	if word, ok := shortWords[text]; ok {
		return word
	}
	all := []string{wordSource, wordRevision, wordPlan, wordDrift}
	for _, kind := range desired.Kinds() {
		all = append(all, string(kind))
	}
	at := slices.IndexFunc(all, func(word string) bool { return text == strings.ToLower(word) || text == strings.ToLower(word)+"s" })
	if at < 0 {
		return ""
	}
	return all[at]
}

// thing is what KIND/NAME names. Allocations are named within a project, which a
// person may write between the two: allocation/PROJECT-ID/NAME.
type thing struct {
	word, scope, name string
}

func (t thing) String() string { return t.word + "/" + t.name }

func (t thing) kind() oapi.Kind { return oapi.Kind(t.word) }

// declarable says that it is an object of desired state.
func (t thing) declarable() bool { return slices.Contains(desired.Kinds(), desired.Kind(t.word)) }

func parseThing(text string) (thing, error) {
	word, name, found := strings.Cut(text, "/")
	t := thing{word: wordOf(word), name: name}
	if t.word == string(oapi.KindAllocation) {
		if scope, rest, scoped := strings.Cut(name, "/"); scoped {
			t.scope, t.name = scope, rest
		}
	}
	switch {
	case !found || t.name == "":
		f := usage("%q names nothing: KIND/NAME is needed", text)
		f.Try = "like node/" + cmp.Or(word, "gpu-07")
		return thing{}, f
	case t.word == "":
		f := usage("there is no kind %q", word)
		f.Try = "one of " + strings.Join(append(kindWords(), wordSource, wordRevision, wordPlan), ", ")
		return thing{}, f
	}
	return t, nil
}

// kindNamed is the kind of objects that a word means.
func kindNamed(word string) (oapi.Kind, error) {
	t := thing{word: wordOf(word)}
	if t.declarable() {
		return t.kind(), nil
	}
	f := usage("there is no kind %q of declared objects", word)
	f.Try = "one of " + strings.Join(kindWords(), ", ")
	return "", f
}

// object finds which object of desired state is meant. An allocation without its
// project is looked for where the caller is.
func (c *client) object(ctx context.Context, text string) (thing, error) {
	t, err := parseThing(text)
	if err != nil {
		return thing{}, err
	}
	if _, err := kindNamed(t.word); err != nil {
		return thing{}, err
	}
	return c.placed(ctx, t)
}

// placed completes an allocation's name with its project.
func (c *client) placed(ctx context.Context, t thing) (thing, error) {
	if t.kind() != oapi.KindAllocation || t.scope != "" {
		return t, nil
	}
	found, err := c.find(ctx, t.name)
	if err != nil {
		return thing{}, err
	}
	t.scope, t.name = found.Value.ProjectId.String(), found.Value.Name
	return t, nil
}

func (c *client) desired(ctx context.Context, t thing) (answer[oapi.DesiredObject], error) {
	return ask[oapi.DesiredObject](ctx, c, func(ctx context.Context) (*http.Response, error) {
		return c.GetDesired(ctx, t.kind(), t.name, &oapi.GetDesiredParams{Scope: set(t.scope)})
	})
}

func (c *client) allDesired(ctx context.Context, kind oapi.Kind, limit int) (list[oapi.DesiredObject], error) {
	return readAll[oapi.DesiredObject](ctx, c, limit, func(ctx context.Context, size *int, cursor *string) (*http.Response, error) {
		return c.ListDesired(ctx, kind, &oapi.ListDesiredParams{Limit: size, Cursor: cursor})
	})
}

// objectTable has the columns of all lists of objects.
func objectTable(a *app, all ...oapi.DesiredObject) table {
	t := table{
		head: []string{"NAME", "READY", "STATUS", "SYNC", "HEALTH", "REVISION", "AGE", "MESSAGE"},
		wide: []string{"OWNER", "PLACE", "ID"},
	}
	for _, o := range all {
		m := o.Metadata
		name := strings.ToLower(string(o.Kind)) + "/" + m.Name
		ready, sync, health, message := "-", "-", "-", ""
		if s := o.Status; s != nil {
			why, _ := condition(s.Conditions, "Ready")
			ready, sync, health, message = truth(why.Status), string(s.Sync), string(s.Health), why.Message
		}
		t.add(name, name, ready, stateOf(m), sync, health, itoa(m.Generation), age(a.Clock.Now(), bornAt(m.Uid)), cell(message),
			string(m.Source.Owner), placeOf(m.Source), m.Uid.String())
	}
	return t
}

// stateOf says who stands between an object and the loop, if anybody does.
func stateOf(m oapi.DesiredMetadata) string {
	switch {
	case m.Suspended != nil:
		return "suspended"
	case m.Adopt != nil:
		return "to be adopted"
	default:
		return "declared"
	}
}

// placeOf is file:line where one edits an object, or the word of its owner.
func placeOf(s oapi.Source) string {
	if s.Path == nil {
		return string(s.Owner)
	}
	return cell(*s.Path) + ":" + itoa(int64(deref(s.Line)))
}

// completeThings gives kinds, and behind a kind the names that the server knows.
// A server that does not answer at once gives none: a person is typing.
func (a *app) completeThings(more ...string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		word, _, found := strings.Cut(typed, "/")
		if !found {
			var kinds []string
			for _, kind := range append(kindWords(), more...) {
				kinds = append(kinds, kind+"/")
			}
			return kinds, cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completionWait)
		defer cancel()
		return a.namesOf(ctx, word), cobra.ShellCompDirectiveNoFileComp
	}
}

// completionWait is how long a person looks at a cursor that stands still.
const completionWait = 2 * time.Second

func (a *app) namesOf(ctx context.Context, word string) (names []string) {
	c, err := a.client()
	if err != nil {
		return nil
	}
	switch found := wordOf(word); found {
	case "", wordRevision, wordPlan, wordDrift:
	case wordSource:
		all, _ := c.sources(ctx, pageSize)
		for _, s := range all.Items {
			names = append(names, word+"/"+s.Name)
		}
	default:
		all, _ := c.allDesired(ctx, oapi.Kind(found), pageSize)
		for _, o := range all.Items {
			names = append(names, word+"/"+o.Metadata.Name)
		}
	}
	return names
}

// planRef reads the id of a plan, also with the word before it.
func planRef(text string) (uuid.UUID, bool) {
	id, err := uuid.Parse(strings.TrimPrefix(strings.TrimPrefix(text, "plan/"), "plans/"))
	return id, err == nil
}
