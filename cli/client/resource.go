package client

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
	"github.com/gpuaas/gpuaas/cli/output"
	"github.com/gpuaas/gpuaas/desired"
)

// All resources are named by one grammar: KIND/NAME. Kinds are accepted in any case, in the plural, and by the short
// names below.

// What has a name like an object but is declared nowhere.
const (
	WordSource   = "source"
	WordRevision = "revision"
	WordPlan     = "plan"
	WordDrift    = "drift"
)

// shortWords are the names of kinds that are no form of the kind itself.
var shortWords = map[string]string{
	"alloc": string(oapi.KindAllocation), "allocs": string(oapi.KindAllocation), "image": string(oapi.KindOSImage), "images": string(oapi.KindOSImage),
	"storageclasses": string(oapi.KindStorageClass),
	"env":            string(oapi.KindEnvironment), "envs": string(oapi.KindEnvironment), "policies": string(oapi.KindPolicy),
	"git-source": WordSource, "git-sources": WordSource, "rev": WordRevision, "revs": WordRevision, "drifts": WordDrift,
}

// KindWords lists the names of kinds for help and completion.
func KindWords() []string {
	words := make([]string, 0, len(desired.Kinds()))
	for _, kind := range desired.Kinds() {
		words = append(words, strings.ToLower(string(kind)))
	}
	return words
}

// wordOf maps the part before the slash to a kind name. It returns an empty string for an unknown
// one.
func wordOf(text string) string {
	text = strings.ToLower(text)
	if word, ok := shortWords[text]; ok {
		return word
	}
	all := []string{WordSource, WordRevision, WordPlan, WordDrift}
	for _, kind := range desired.Kinds() {
		all = append(all, string(kind))
	}
	at := slices.IndexFunc(all, func(word string) bool { return text == strings.ToLower(word) || text == strings.ToLower(word)+"s" })
	if at < 0 {
		return ""
	}
	return all[at]
}

// ResourceRef is a parsed KIND/NAME. An allocation name is unique within a project, which the user
// may write between the two: allocation/PROJECT-ID/NAME.
type ResourceRef struct {
	KindName, Scope, Name string
}

func (t ResourceRef) String() string { return t.KindName + "/" + t.Name }

func (t ResourceRef) Kind() oapi.Kind { return oapi.Kind(t.KindName) }

// declarable reports whether the resource is a desired object.
func (t ResourceRef) declarable() bool {
	return slices.Contains(desired.Kinds(), desired.Kind(t.KindName))
}

func ParseResourceRef(text string) (ResourceRef, error) {
	word, name, found := strings.Cut(text, "/")
	t := ResourceRef{KindName: wordOf(word), Name: name}
	if t.KindName == string(oapi.KindAllocation) {
		if scope, rest, scoped := strings.Cut(name, "/"); scoped {
			t.Scope, t.Name = scope, rest
		}
	}
	switch {
	case !found || t.Name == "":
		f := output.UsageError("%q is not of the form KIND/NAME", text)
		f.Try = "like node/" + cmp.Or(word, "gpu-07")
		return ResourceRef{}, f
	case t.KindName == "":
		f := output.UsageError("kind %q does not exist", word)
		f.Try = "one of " + strings.Join(append(KindWords(), WordSource, WordRevision, WordPlan), ", ")
		return ResourceRef{}, f
	}
	return t, nil
}

// KindNamed returns the kind of a name.
func KindNamed(word string) (oapi.Kind, error) {
	t := ResourceRef{KindName: wordOf(word)}
	if t.declarable() {
		return t.Kind(), nil
	}
	f := output.UsageError("kind %q of desired objects does not exist", word)
	f.Try = "one of " + strings.Join(KindWords(), ", ")
	return "", f
}

// Object returns the desired object of a reference. An allocation without a project is searched in
// the caller's project.
func (c *Client) Object(ctx context.Context, text string) (ResourceRef, error) {
	t, err := ParseResourceRef(text)
	if err != nil {
		return ResourceRef{}, err
	}
	if _, err := KindNamed(t.KindName); err != nil {
		return ResourceRef{}, err
	}
	return c.Placed(ctx, t)
}

// Placed completes an allocation's name with its project.
func (c *Client) Placed(ctx context.Context, t ResourceRef) (ResourceRef, error) {
	if t.Kind() != oapi.KindAllocation || t.Scope != "" {
		return t, nil
	}
	found, err := c.Find(ctx, t.Name)
	if err != nil {
		return ResourceRef{}, err
	}
	t.Scope, t.Name = found.Value.ProjectId.String(), found.Value.Name
	return t, nil
}

func (c *Client) Desired(ctx context.Context, t ResourceRef) (Response[oapi.DesiredObject], error) {
	return Send[oapi.DesiredObject](ctx, c, func(ctx context.Context) (*http.Response, error) {
		return c.GetDesired(ctx, t.Kind(), t.Name, &oapi.GetDesiredParams{Scope: output.PointerOrNil(t.Scope)})
	})
}

func (c *Client) AllDesired(ctx context.Context, kind oapi.Kind, limit int) (List[oapi.DesiredObject], error) {
	return ReadAll[oapi.DesiredObject](ctx, c, limit, func(ctx context.Context, size *int, cursor *string) (*http.Response, error) {
		return c.ListDesired(ctx, kind, &oapi.ListDesiredParams{Limit: size, Cursor: cursor})
	})
}

// ObjectTable has the columns of all lists of objects.
func ObjectTable(a *output.Console, all ...oapi.DesiredObject) output.Table {
	t := output.Table{
		Head: []string{"NAME", "READY", "STATUS", "SYNC", "HEALTH", "REVISION", "AGE", "MESSAGE"},
		Wide: []string{"OWNER", "PLACE", "ID"},
	}
	for _, o := range all {
		m := o.Metadata
		name := strings.ToLower(string(o.Kind)) + "/" + m.Name
		ready, sync, health, message := "-", "-", "-", ""
		if s := o.Status; s != nil {
			why, _ := output.Condition(output.ConditionsOf(*s), "Ready")
			ready, sync, health, message = output.ConditionSymbol(why.Status), string(s.Sync), string(s.Health), why.Message
		}
		t.Add(name, name, ready, stateOf(m), sync, health, output.Itoa(m.Generation), output.Age(a.Clock.Now(), output.BornAt(m.Uid)), output.CellText(message),
			string(m.Source.Owner), PlaceOf(m.Source), m.Uid.String())
	}
	return t
}

// stateOf returns what stops the reconciliation of an object, if anything does.
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

// PlaceOf returns file:line of an object of Git, or the name of its owner.
func PlaceOf(s oapi.Source) string {
	if s.Path == nil {
		return string(s.Owner)
	}
	return output.CellText(*s.Path) + ":" + output.Itoa(int64(output.ValueOrZero(s.Line)))
}

// CompleteResources gives kinds, and behind a kind the names that the server knows.
// A server that does not answer at once gives none: a person is typing.
func CompleteResources(a *output.Console, more ...string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		word, _, found := strings.Cut(typed, "/")
		if !found {
			var kinds []string
			for _, kind := range append(KindWords(), more...) {
				kinds = append(kinds, kind+"/")
			}
			return kinds, cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completionWait)
		defer cancel()
		return namesOf(ctx, a, word), cobra.ShellCompDirectiveNoFileComp
	}
}

// completionWait is the time that a user accepts for a completion in the shell.
const completionWait = 2 * time.Second

func namesOf(ctx context.Context, a *output.Console, word string) (names []string) {
	c, err := Connect(a)
	if err != nil {
		return nil
	}
	switch found := wordOf(word); found {
	case "", WordRevision, WordPlan, WordDrift:
	case WordSource:
		all, _ := c.sources(ctx, PageSize)
		for _, s := range all.Items {
			names = append(names, word+"/"+s.Name)
		}
	default:
		all, _ := c.AllDesired(ctx, oapi.Kind(found), PageSize)
		for _, o := range all.Items {
			names = append(names, word+"/"+o.Metadata.Name)
		}
	}
	return names
}

// PlanRef parses the id of a plan, with or without the prefix "plan/".
func PlanRef(text string) (uuid.UUID, bool) {
	id, err := uuid.Parse(strings.TrimPrefix(strings.TrimPrefix(text, "plan/"), "plans/"))
	return id, err == nil
}
