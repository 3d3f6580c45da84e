package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"regexp"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

const (
	contract = "api/openapi/openapi.yaml"
	commands = "docs/reference/cli.md"
)

var generated = regexp.MustCompile(`Code generated .* DO NOT EDIT`)

// prose are the endings of files whose whole text is read.
var prose = map[string]bool{".md": true, ".cue": true, ".sql": true, ".sh": true, ".yaml": true, ".yml": true}

// check applies all rules to the files. A command's short text is read from the generated reference,
// which contains the text of every command.
func (r *rules) check(files []string) (all []finding, err error) {
	packages := map[string]bool{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("reading a file: %w", err)
		}
		head := text[:min(len(text), 512)]
		isGenerated := generated.Match(head)
		if file == commands {
			all = append(all, r.shorts(file, string(text))...)
		}
		if isGenerated {
			continue
		}
		found, err := r.file(file, text, packages)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

func (r *rules) file(file string, text []byte, packages map[string]bool) (all []finding, err error) {
	ext := path.Ext(file)
	if ext == ".go" || ext == ".sql" || ext == ".cue" {
		if what := r.name(strings.TrimSuffix(strings.TrimSuffix(path.Base(file), ext), "_test")); what != "" {
			all = append(all, finding{ruleName, file, 1, "file " + what})
		}
	}
	switch {
	case ext == ".go":
		found, err := r.goFile(file, text, packages)
		return append(all, found...), err
	case prose[ext]:
		if at := generated.FindIndex(text); at != nil && ext == ".yaml" {
			text = text[:at[0]] // the end of the contract is generated
		}
		all = append(all, r.texts(file, 1, string(text))...)
	}
	if file == contract {
		found, err := r.summaries(file, text)
		return append(all, found...), err
	}
	return all, nil
}

// texts counts the words of the two lists in a text that starts at a line.
func (r *rules) texts(file string, line int, text string) (all []finding) {
	for rule, list := range map[string]*regexp.Regexp{ruleRejected: r.rejected, ruleCounted: r.counted} {
		for _, m := range r.words(list, text) {
			all = append(all, finding{rule, file, line + strings.Count(text[:m.at], "\n"), strconv.Quote(m.text)})
		}
	}
	return all
}

func (r *rules) goFile(file string, text []byte, packages map[string]bool) (all []finding, err error) {
	files := token.NewFileSet()
	f, err := parser.ParseFile(files, file, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, fmt.Errorf("parsing: %w", err)
	}
	line := func(p token.Pos) int { return files.Position(p).Line }
	declare := func(id *ast.Ident) {
		if what := r.name(id.Name); what != "" {
			all = append(all, finding{ruleName, file, line(id.Pos()), what})
		}
	}
	if folder := path.Dir(file); !packages[folder] {
		packages[folder] = true
		declare(f.Name)
	}
	for _, d := range f.Decls {
		declarations(d, declare)
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Field, *ast.FuncDecl, *ast.GenDecl, *ast.TypeSpec, *ast.ValueSpec:
			if doc := docOf(n); doc != nil && vague(doc.Text()) {
				first, _, _ := strings.Cut(doc.Text(), "\n")
				all = append(all, finding{ruleDoc, file, line(doc.Pos()), first})
			}
		case *ast.BasicLit:
			// A string without a space is a key or a name, not a text.
			if n.Kind == token.STRING && strings.Contains(n.Value, " ") {
				all = append(all, r.texts(file, line(n.Pos()), n.Value)...)
			}
		}
		return true
	})
	for _, group := range f.Comments {
		for _, c := range group.List {
			if !strings.HasPrefix(c.Text, "//go:") && !strings.HasPrefix(c.Text, "//nolint") {
				all = append(all, r.texts(file, line(c.Pos()), c.Text)...)
			}
		}
	}
	return all, nil
}

func docOf(n ast.Node) *ast.CommentGroup {
	switch n := n.(type) {
	case *ast.Field:
		return n.Doc
	case *ast.FuncDecl:
		return n.Doc
	case *ast.GenDecl:
		return n.Doc
	case *ast.TypeSpec:
		return n.Doc
	case *ast.ValueSpec:
		return n.Doc
	}
	return nil
}

// declarations calls declare for each name of a declaration at package level: types with their fields
// and methods, functions, constants and variables.
func declarations(d ast.Decl, declare func(*ast.Ident)) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		declare(d.Name)
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				declare(spec.Name)
				members(spec.Type, declare)
			case *ast.ValueSpec:
				for _, id := range spec.Names {
					declare(id)
				}
			}
		}
	}
}

// members calls declare for the fields of a struct and the methods of an interface, also below other
// types.
func members(t ast.Expr, declare func(*ast.Ident)) {
	ast.Inspect(t, func(n ast.Node) bool {
		var list *ast.FieldList
		switch n := n.(type) {
		case *ast.StructType:
			list = n.Fields
		case *ast.InterfaceType:
			list = n.Methods
		default:
			return true
		}
		for _, field := range list.List {
			for _, id := range field.Names {
				declare(id)
			}
		}
		return true
	})
}

// summaries checks the summary of each operation of the contract.
func (r *rules) summaries(file string, text []byte) (all []finding, err error) {
	var doc struct {
		Paths map[string]map[string]yaml.Node
	}
	if err := yaml.NewDecoder(bytes.NewReader(text)).Decode(&doc); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	for _, item := range doc.Paths {
		for _, node := range item {
			var op struct {
				OperationID string `yaml:"operationId"`
				Summary     string
			}
			if err := node.Decode(&op); err != nil || op.OperationID == "" {
				continue // parameters of the path
			}
			if what := r.summary(op.Summary); what != "" {
				all = append(all, finding{ruleSummary, file, node.Line, op.OperationID + ": " + what})
			}
		}
	}
	return all, nil
}

var command = regexp.MustCompile(`^- \[(gpuaas [^\]]+)\]\(#[^)]*\): (.*)$`)

// shorts checks the table of contents of the command line's reference.
func (r *rules) shorts(file, text string) (all []finding) {
	n := 0
	for line := range strings.Lines(text) {
		n++
		if m := command.FindStringSubmatch(strings.TrimSpace(line)); m != nil {
			if what := r.short(m[2]); what != "" {
				all = append(all, finding{ruleShort, file, n, m[1] + ": " + what})
			}
		}
	}
	return all
}
