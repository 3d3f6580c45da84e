// Package observed owns what was last seen: the reports of nodes, their age and
// completeness. It believes them only as far as their order allows, and decides
// nothing.
package observed
