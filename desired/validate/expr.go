package validate

import (
	"strings"

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/literal"
	"cuelang.org/go/cue/token"
)

// expr is a document as CUE's syntax, with the places of the author's file.
func (y *yamlReader) expr(n *node) ast.Expr {
	lit := func(kind token.Token, text string) ast.Expr {
		return &ast.BasicLit{ValuePos: y.pos(n.at), Kind: kind, Value: text}
	}
	switch n.kind {
	case kindNull:
		return lit(token.NULL, "null")
	case kindTrue:
		return lit(token.TRUE, "true")
	case kindFalse:
		return lit(token.FALSE, "false")
	case kindInt, kindFloat:
		kind := token.INT
		if n.kind == kindFloat {
			kind = token.FLOAT
		}
		if plain, negative := strings.CutPrefix(n.text, "-"); negative {
			// CUE has no negative literals, only the operator.
			return &ast.UnaryExpr{OpPos: y.pos(n.at), Op: token.SUB, X: lit(kind, plain)}
		}
		return lit(kind, n.text)
	case kindText:
		return lit(token.STRING, literal.String.Quote(n.text))
	case kindList:
		list := &ast.ListLit{Lbrack: y.pos(n.at)}
		for i := range n.items {
			list.Elts = append(list.Elts, y.expr(&n.items[i]))
		}
		return list
	case kindObject:
		s := &ast.StructLit{Lbrace: y.pos(n.at)}
		for i := range n.members {
			m := &n.members[i]
			s.Elts = append(s.Elts, &ast.Field{
				Label: &ast.BasicLit{ValuePos: y.pos(m.at), Kind: token.STRING, Value: literal.String.Quote(m.name)},
				Value: y.expr(&m.value),
			})
		}
		return s
	}
	return lit(token.NULL, "null")
}

// pos turns a line and column into CUE's kind of position.
func (y *yamlReader) pos(at spot) token.Pos {
	offset, ok := y.offset(at)
	if !ok {
		return token.NoPos
	}
	return y.file.Pos(offset, token.NoRelPos)
}
