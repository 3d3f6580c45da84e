package preview

import (
	"fmt"
	"slices"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/desired/revision"
)

// annotationPrune decides whether a revision may delete the object: allow, confirm, disabled.
const annotationPrune = "gpuaas/prune"

// findings returns the reasons why a change cannot be applied at all.
func findings(c Change, r Rules) []desired.Finding {
	list := append([]desired.Finding{}, c.Diff.Foreign...)
	if c.Source != "" && !c.Trusted && c.Signer == "" && slices.Contains(Requires(c.Diff, r.Requires), RequiresSigned) {
		list = append(list, desired.Finding{Message: "the commit has no verified signature", Expected: "a signature, which gitops.apply_requires demands"})
	}
	for _, o := range slices.SortedFunc(slices.Values(c.Diff.Deleted), byKey) {
		if o.Annotations[annotationPrune] == "disabled" {
			list = append(list, desired.Finding{
				Path: o.Source.Path, Line: o.Source.Line, Column: o.Source.Column, Object: label(o), Field: "metadata.annotations." + annotationPrune,
				Message: "is removed, and may not be", Expected: "the object, or first a revision without the annotation",
			})
		}
	}
	return list
}

// waits returns the reasons why a change needs an approval.
func waits(c Change, e effect, r Rules) []revision.Wait {
	list := []revision.Wait{}
	add := func(reason string, objects []desired.Object, format string, args ...any) {
		if len(objects) > 0 {
			list = append(list, revision.Wait{Reason: reason, Message: fmt.Sprintf(format, args...), Objects: labels(objects)})
		}
	}
	if !c.Trusted {
		add(WaitSensitive, Sensitive(c.Diff), "approval rules, sign-in, sources, rights or prices change")
	}
	if slices.Contains(Requires(c.Diff, r.Requires), RequiresUndiverged) && c.Diverged {
		list = append(list, revision.Wait{Reason: WaitDiverged, Message: fmt.Sprintf("%s does not descend from %s, which is applied", short(c.Commit), short(c.Base)), Objects: []string{}})
	}
	total := c.Diff.Unchanged + len(e.deleted)
	if most := max(r.PruneObjects, total*r.PrunePercent/100); len(e.deleted) > most {
		add(WaitPruneCap, e.deleted, "%d of %d objects are removed, and one revision may remove %d", len(e.deleted), total, most)
	}
	var confirm []desired.Object
	for _, o := range e.deleted {
		if o.Annotations[annotationPrune] == "confirm" {
			confirm = append(confirm, o)
		}
	}
	add(WaitConfirm, confirm, "confirm the deletion of %s", counted(len(confirm), "object"))
	under := e.under()
	add(WaitUnderAllocations, under, "%s on removed or changed objects; they continue, and a removed object is deleted after their release", livings(len(e.affected)))
	going := slices.Clone(e.cordons)
	for _, o := range e.deleted {
		if o.Kind == desired.KindNode {
			going = append(going, o)
		}
	}
	if most := max(r.MassMinimum, e.inputs.Fleet*r.MassPercent/100); len(going) > most {
		add(WaitMassAction, going, "%d of %d nodes are put out of service; more than %d need an approval", len(going), e.inputs.Fleet, most)
	}
	return list
}

func livings(n int) string {
	switch n {
	case 0:
		return "slots are not proved clean"
	case 1:
		return "1 allocation depends"
	}
	return fmt.Sprintf("%d allocations depend", n)
}

// under returns the objects with live allocations or claims.
func (e effect) under() (list []desired.Object) {
	on := map[string]bool{}
	for _, a := range e.affected {
		on[a.Node.String()], on[a.SKU] = true, true
	}
	for _, o := range e.deleted {
		if o.Kind == desired.KindSKU && on[o.Name] || o.Kind == desired.KindNode && (on[o.UID.String()] || e.node(o).Held > 0) {
			list = append(list, o)
		}
	}
	for _, p := range slices.Concat(e.changed, e.adopted) {
		if o := p.New; o.Kind == desired.KindNode && e.resliced[nodeID(o)] && (on[o.UID.String()] || e.node(o).Held > 0) {
			list = append(list, o)
		}
	}
	return list
}

func labels(objects []desired.Object) []string {
	list := make([]string, len(objects))
	for i, o := range objects {
		list[i] = label(o)
	}
	slices.Sort(list)
	return list
}

// short is a commit as people write it.
func short(commit string) string {
	const digits = 12
	return commit[:min(len(commit), digits)]
}
