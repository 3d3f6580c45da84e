// Package web embeds the built portal, and the pages without it with their style. It reads no data and makes no
// decision.
package web

import (
	"embed"
	"fmt"
	"html/template"
)

//go:embed pages/*.html
var pages embed.FS

// Style is the one style sheet.
//
//go:embed style.css
var Style []byte

// FirstAdmin is the one script: it reads the code of the first administrator.
//
//go:embed first-admin.js
var FirstAdmin []byte

// Page reads the template of one page, inside the frame that all share.
func Page(name string, functions template.FuncMap) (*template.Template, error) {
	t, err := template.New("frame.html").Funcs(functions).ParseFS(pages, "pages/frame.html", "pages/"+name+".html")
	if err != nil {
		return nil, fmt.Errorf("reading page %s: %w", name, err)
	}
	return t, nil
}

// MustPage is Page without functions. It panics if the page is not one of the embedded files.
func MustPage(name string) *template.Template {
	t, err := Page(name, nil)
	if err != nil {
		panic(err)
	}
	return t
}
