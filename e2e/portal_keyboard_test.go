//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// The keys of WebDriver.
const (
	keyTab    = "\ue004"
	keyEnter  = "\ue007"
	keyEscape = "\ue00c"
	keyDown   = "\ue015"
	keySpace  = " "
)

// axNode is a node of the tree that screen readers read.
type axNode struct {
	NodeID, ParentID string
	Ignored          bool
	Role, Name       struct{ Value string }
	Properties       []struct {
		Name  string
		Value struct{ Value any }
	}
}

func (b *browser) tree() []axNode {
	b.t.Helper()
	var tree struct{ Nodes []axNode }
	b.must("POST", "/goog/cdp/execute", map[string]any{"cmd": "Accessibility.getFullAXTree", "params": map[string]any{}}, &tree)
	if len(tree.Nodes) < 10 {
		b.t.Errorf("the tree of accessibility has only %d nodes", len(tree.Nodes))
	}
	return tree.Nodes
}

// live returns the text of the live regions.
func (b *browser) live() (text string) {
	b.t.Helper()
	inRegion := map[string]bool{}
	for _, n := range b.tree() { // parents are first
		if inRegion[n.NodeID] = n.Role.Value == "status" || inRegion[n.ParentID]; inRegion[n.NodeID] {
			text += " " + n.Name.Value
		}
	}
	return text
}

// nameless are the roles of elements that can have the focus without a name: the content of the page, to which a link skips,
// and commands, which scroll.
var nameless = []string{"main", "code"}

// named checks that each other element that can have the focus has a name.
func (b *browser) named() {
	b.t.Helper()
	for _, n := range b.tree() {
		for _, p := range n.Properties {
			if p.Name == "focusable" && p.Value.Value == true && !n.Ignored && n.Name.Value == "" && !slices.Contains(nameless, n.Role.Value) {
				b.t.Errorf("%s: an element with the role %q has no name", b.at(), n.Role.Value)
			}
		}
	}
}

// keys presses keys one after the other.
func (b *browser) keys(text string) {
	b.t.Helper()
	var all []map[string]string
	for _, key := range text {
		all = append(all, map[string]string{"type": "keyDown", "value": string(key)}, map[string]string{"type": "keyUp", "value": string(key)})
	}
	b.must("POST", "/actions", map[string]any{"actions": []any{map[string]any{"type": "key", "id": "keyboard", "actions": all}}}, nil)
}

// focused reports whether an element that matches has the focus.
func (b *browser) focused(selector string) (is bool) {
	b.t.Helper()
	b.script(fmt.Sprintf(`return document.activeElement.matches(%q)`, selector), &is)
	return is
}

// hasFocus waits until an element that matches has the focus.
func (b *browser) hasFocus(selector string) {
	b.t.Helper()
	until(b.t, patience, selector+" has the focus", func() error {
		if b.focused(selector) {
			return nil
		}
		var other string
		b.script(`return document.activeElement.outerHTML.slice(0, 200)`, &other)
		return errors.New(other + " has it")
	})
}

// mostTabs is the number of controls that a user passes at most.
const mostTabs = 150

// hiddenFocus is the element with the focus, if it is left or right of the window, or has the styles that it has without the focus. The cursor of a
// terminal shows that it has the focus. A heading has it only so that a screen reader begins there. It may be
// below the window: what a page loads later moves it.
const hiddenFocus = `
	const element = document.activeElement;
	if (element.matches("body, h1, .xterm-helper-textarea, [data-focus]")) return "";
	element.dataset.focus = "checked";
	const styles = () => { const {outline, boxShadow, borderColor} = getComputedStyle(element); return outline + boxShadow + borderColor };
	const box = (element.closest("label") ?? element).getBoundingClientRect(), focused = styles();
	element.blur();
	const isShown = styles() !== focused && box.right > 0 && box.left < innerWidth;
	element.focus({preventScroll: true});
	return isShown ? "" : element.outerHTML.slice(0, 200)`

// reaches presses Tab until an element that matches has the focus, and then other keys.
func (b *browser) reaches(selector, keys string) {
	b.t.Helper()
	b.find(selector)
	for range mostTabs {
		if b.focused(selector) {
			b.keys(keys)
			return
		}
		b.keys(keyTab)
		var hidden string
		if b.script(hiddenFocus, &hidden); hidden != "" {
			b.t.Errorf("%s: %s does not show that it has the focus", b.at(), hidden)
		}
	}
	b.t.Fatalf("%d times Tab do not lead to %s", mostTabs, selector)
}

// findsHiddenFocus proves that an element that hides its focus is found.
func (b *browser) findsHiddenFocus() {
	b.t.Helper()
	b.open("data:text/html,<button>visible</button><button style='outline:none'>plain</button><button style='position:fixed;left:-99px'>outside</button>")
	for _, want := range []string{"", "plain", "outside"} {
		b.keys(keyTab)
		var hidden string
		if b.script(hiddenFocus, &hidden); !strings.Contains(hidden, want) || want == "" && hidden != "" {
			b.t.Errorf("want %q, found %q", want, hidden)
		}
	}
}
