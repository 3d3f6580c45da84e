package check

import (
	"bytes"
	"context"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/pg"
)

const (
	// projectSlice is the number of files of one comparison of a project: each of them is a request to the object store.
	projectSlice = 500
	// readSize bounds the bytes whose checksums one comparison computes, so that a request has an end.
	readSize = 256 << 20
)

// Unknown is the fault of a backend object without a file.
const Unknown = "unknown"

// Difference is a file whose bytes are lost or changed, or a backend object without a file.
type Difference struct {
	Fault string
	Key   uuid.UUID // of the backend object
	Size  int64
	// Files is the number of files with these bytes. Object, Tenant and Project are those of one of them; zero without a file.
	Files                   int64
	Object, Tenant, Project uuid.UUID
}

// Comparison is the result of a slice. Next is the position behind it; zero: nothing is behind it.
type Comparison struct {
	Differences []Difference
	Next        uuid.UUID
}

// Question limits a comparison.
type Question struct {
	Project   uuid.UUID // zero: of all projects, and backend objects without a file
	Checksums bool      // read all bytes; otherwise only sizes are compared
	Limit     int       // of the differences
}

// Compare compares the slice after a position, as Slice does, and changes nothing.
func (s *Service) Compare(ctx context.Context, after uuid.UUID, q Question) (c Comparison, err error) {
	p := slice{after: after}
	if q.Project == uuid.Nil {
		err = s.read(ctx, &p)
	} else {
		err = s.readProject(ctx, &p, q.Project)
	}
	if err != nil {
		return c, err
	}
	faults, err := s.examineAll(ctx, &p, q.Checksums)
	if err != nil {
		return c, err
	}
	if c.Differences, err = s.filesOf(ctx, faults, q.Project); err != nil {
		return c, err
	}
	if q.Project == uuid.Nil {
		strays, err := s.strays(ctx, p)
		if err != nil {
			return c, err
		}
		c.Differences = append(c.Differences, strays...)
	}
	if !p.last {
		c.Next = p.upTo
	}
	slices.SortFunc(c.Differences, func(a, b Difference) int { return bytes.Compare(a.Key[:], b.Key[:]) })
	if len(c.Differences) > q.Limit {
		c.Differences = c.Differences[:q.Limit]
		c.Next = c.Differences[q.Limit-1].Key
	}
	return c, nil
}

// readProject reads the next files of a project. Their backend objects are not listed, because the object store knows no
// projects.
func (s *Service) readProject(ctx context.Context, p *slice, project uuid.UUID) (err error) {
	p.upTo, p.last = uuid.Max, true
	p.files, err = pg.List(ctx, s.DB, "files", selectProjectFiles, toFile, project, p.after, projectSlice)
	if len(p.files) == projectSlice {
		p.upTo, p.last = p.files[len(p.files)-1].key, false
	}
	return err
}

func toFile(row pgx.CollectableRow) (f file, err error) {
	err = row.Scan(&f.key, &f.tenant, &f.project, &f.size, &f.sha256)
	return f, err
}

// examineAll returns the faults by backend object. With checksums it ends the slice where it has read enough bytes.
func (s *Service) examineAll(ctx context.Context, p *slice, checksums bool) (map[uuid.UUID]string, error) {
	has := make(map[uuid.UUID]int64, len(p.stored))
	for _, info := range p.stored {
		has[info.ID] = info.Size
	}
	faults := map[uuid.UUID]string{}
	var bytesRead int64
	for i, f := range p.files {
		reads := checksums && f.sha256 != nil
		fault, err := s.examine(ctx, f, has, reads)
		if err != nil {
			return nil, err
		}
		if fault != "" {
			faults[f.key] = fault
		}
		if reads {
			bytesRead += f.size
		}
		if bytesRead > readSize && i < len(p.files)-1 {
			p.upTo, p.last = f.key, false
			break
		}
	}
	return faults, nil
}

// filesOf returns a file of each faulty backend object, of which copies share one. A file that was deleted meanwhile is
// none of them.
func (s *Service) filesOf(ctx context.Context, faults map[uuid.UUID]string, project uuid.UUID) ([]Difference, error) {
	keys := make([]uuid.UUID, 0, len(faults))
	for key := range faults {
		keys = append(keys, key)
	}
	return pg.List(ctx, s.DB, "files with a fault", selectFaulty, func(row pgx.CollectableRow) (d Difference, err error) {
		err = row.Scan(&d.Key, &d.Size, &d.Object, &d.Tenant, &d.Project, &d.Files)
		d.Fault = faults[d.Key]
		return d, err
	}, keys, project)
}

// strays returns the backend objects without a file, except for young ones, whose upload may be in progress.
func (s *Service) strays(ctx context.Context, p slice) ([]Difference, error) {
	sizes := map[uuid.UUID]int64{}
	var keys []uuid.UUID
	for _, info := range p.stored {
		if bytes.Compare(info.ID[:], p.upTo[:]) <= 0 && s.Clock.Now().Sub(info.Modified) > unknownFor {
			keys, sizes[info.ID] = append(keys, info.ID), info.Size
		}
	}
	if len(keys) == 0 {
		return nil, nil
	}
	found, err := pg.List(ctx, s.DB, "backend objects without a file", selectStrays, pgx.RowTo[uuid.UUID], keys)
	if err != nil {
		return nil, err
	}
	others, err := s.others(ctx, found)
	if err != nil {
		return nil, err
	}
	var all []Difference
	for _, key := range found {
		if !others[key] {
			all = append(all, Difference{Fault: Unknown, Key: key, Size: sizes[key]})
		}
	}
	return all, nil
}
