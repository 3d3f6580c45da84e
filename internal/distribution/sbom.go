package distribution

import (
	"bytes"
	"cmp"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"runtime/debug"
	"slices"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// SBOMName returns the name of the bill of materials of an archive.
func SBOMName(archive string) string { return strings.TrimSuffix(archive, archiveSuffix) + ".cdx.json" }

// Component is a part of a program: a Go module, or an npm package of the portal.
type Component struct {
	Kind    string // golang or npm
	Name    string
	Version string
	// Integrity is the h1 digest of a Go module, or the integrity of an npm package.
	Integrity string
}

// purl is the package URL of the component.
func (c Component) purl() string {
	return "pkg:" + c.Kind + "/" + strings.ReplaceAll(c.Name, "@", "%40") + "@" + strings.ReplaceAll(c.Version, "+", "%2B")
}

// ModulesOf returns the Go modules in a program, from the information that the compiler stores in it.
func ModulesOf(program io.ReaderAt) (list []Component, info *debug.BuildInfo, err error) {
	if info, err = buildinfo.Read(program); err != nil {
		return nil, nil, fmt.Errorf("reading the build information: %w", err)
	}
	list = append(list, Component{Kind: "golang", Name: "stdlib", Version: strings.TrimPrefix(info.GoVersion, "go")})
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		list = append(list, Component{"golang", m.Path, m.Version, m.Sum})
	}
	return list, info, nil
}

// PackagesOf returns the npm packages that the bundle of the portal contains: those of a lock file that no development
// dependency alone needs.
func PackagesOf(lock []byte) (list []Component, err error) {
	var file struct {
		Packages map[string]struct {
			Version   string
			Integrity string
			Dev       bool
			Optional  bool
			DevOpt    bool `json:"devOptional"`
		}
	}
	if err := json.Unmarshal(lock, &file); err != nil {
		return nil, fmt.Errorf("reading the lock file of the portal: %w", err)
	}
	for path, p := range file.Packages {
		const folder = "node_modules/"
		if i := strings.LastIndex(path, folder); i >= 0 && !p.Dev && !p.DevOpt && !p.Optional {
			list = append(list, Component{"npm", path[i+len(folder):], p.Version, p.Integrity})
		}
	}
	sortComponents(list)
	return slices.Compact(list), nil
}

func sortComponents(list []Component) {
	slices.SortFunc(list, func(a, b Component) int {
		return cmp.Or(strings.Compare(a.Kind, b.Kind), strings.Compare(a.Name, b.Name), strings.Compare(a.Version, b.Version))
	})
}

// EncodeSBOM returns the bill of materials of an archive: CycloneDX 1.6 without a time and a serial number, so that equal
// components give equal bytes.
func EncodeSBOM(version string, components []Component) ([]byte, error) {
	list := slices.Clone(components)
	sortComponents(list)
	list = slices.Compact(list)
	var all []cdx.Component
	for _, c := range list {
		one := cdx.Component{Type: cdx.ComponentTypeLibrary, BOMRef: c.purl(), Name: c.Name, Version: c.Version, PackageURL: c.purl()}
		if c.Integrity != "" {
			one.Properties = &[]cdx.Property{{Name: "gpuaas:integrity", Value: c.Integrity}}
		}
		all = append(all, one)
	}
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{Component: &cdx.Component{Type: cdx.ComponentTypeApplication, Name: "gpuaas", Version: version}}
	bom.Components = &all
	var b bytes.Buffer
	if err := cdx.NewBOMEncoder(&b, cdx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(bom, cdx.SpecVersion1_6); err != nil {
		return nil, fmt.Errorf("encoding the bill of materials: %w", err)
	}
	return b.Bytes(), nil
}

// componentsOf returns the components in a bill of materials with their digests, by package URL.
func componentsOf(dir fs.FS, name string) (map[string]string, error) {
	text, err := readBounded(dir, name)
	if err != nil {
		return nil, err
	}
	var bom cdx.BOM
	if err := cdx.NewBOMDecoder(bytes.NewReader(text), cdx.BOMFileFormatJSON).Decode(&bom); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	found := map[string]string{}
	if bom.Components == nil {
		return found, nil
	}
	for _, c := range *bom.Components {
		if c.Properties == nil {
			found[c.PackageURL] = ""
			continue
		}
		for _, p := range *c.Properties {
			found[c.PackageURL] = p.Value
		}
	}
	return found, nil
}
