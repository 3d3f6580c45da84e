package catalog_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/hint"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pgtest"
	"github.com/gpuaas/gpuaas/platform/catalog"
)

func h100() catalog.SKU {
	return catalog.SKU{
		ID: ids.New[ids.Object](), Name: "h100-sxm", DisplayName: "H100", GPUModel: "NVIDIA H100 80GB HBM3", MemoryGiB: 80,
		Isolation: "host_user", MaxGPUs: 8, Active: true, Currency: "EUR", PriceMinor: 250,
	}
}

// within commits what do does.
func within(t *testing.T, db *pgxpool.Pool, do func(pgx.Tx) error) {
	t.Helper()
	if err := pgx.BeginFunc(t.Context(), db, do); err != nil {
		t.Fatal(err)
	}
}

// without returns a SKU without its times, which the database sets.
func without(s catalog.SKU) catalog.SKU {
	s.CreatedAt, s.UpdatedAt = time.Time{}, time.Time{}
	return s
}

// specOf is the desired spec of a SKU.
func specOf(s catalog.SKU) json.RawMessage {
	return fmt.Appendf(json.RawMessage{}, `{"displayName": %q, "gpuModel": %q, "memoryGiB": %d, "isolation": %q, "maxGPUs": %d, "active": %t, "price": {"currency": %q, "amountMinor": %d}}`,
		s.DisplayName, s.GPUModel, s.MemoryGiB, s.Isolation, s.MaxGPUs, s.Active, s.Currency, s.PriceMinor)
}

func declare(t *testing.T, s *catalog.Service, db *pgxpool.Pool, sku catalog.SKU) {
	t.Helper()
	within(t, db, func(tx pgx.Tx) error { return s.Declare(t.Context(), tx, sku.ID, sku.Name, specOf(sku)) })
}

func TestDeclaredIsOffered(t *testing.T) {
	t.Parallel()
	db := pgtest.Clone(t)
	s := &catalog.Service{DB: db}
	_, err := s.ActiveSKU(t.Context(), "h100-sxm")
	if errs.CodeOf(err) != errs.SKUUnknown {
		t.Errorf("before: %v", err)
	}
	sku := h100()
	declare(t, s, db, sku)
	if got, err := s.ActiveSKU(t.Context(), sku.Name); err != nil || without(got) != sku || got.CreatedAt.IsZero() {
		t.Errorf("got %+v, %v", got, err)
	}
	if all, err := s.List(t.Context(), "", 10); err != nil || len(all) != 1 || without(all[0]) != sku {
		t.Errorf("list %+v, %v", all, err)
	}
	if all, err := s.List(t.Context(), sku.Name, 10); err != nil || len(all) != 0 {
		t.Errorf("after the last %+v, %v", all, err)
	}
	within(t, db, func(tx pgx.Tx) error { return s.Retire(t.Context(), tx, sku.ID) })
	if _, err := s.ActiveSKU(t.Context(), sku.Name); errs.CodeOf(err) != errs.SKUUnknown {
		t.Errorf("retired: %v", err)
	}
	if got, err := s.Get(t.Context(), sku.Name); err != nil || got.Active {
		t.Errorf("retired %+v, %v", got, err)
	}
	if _, err := s.Get(t.Context(), "none"); errs.CodeOf(err) != errs.NotFound {
		t.Errorf("unknown: %v", err)
	}
	// Declared again under another uid, as after an undeclaration.
	sku.ID = ids.New[ids.Object]()
	declare(t, s, db, sku)
	if got, err := s.ActiveSKU(t.Context(), sku.Name); err != nil || without(got) != sku || got.CreatedAt.IsZero() {
		t.Errorf("again %+v, %v", got, err)
	}
}

func TestPriceThatDiffersAddsARow(t *testing.T) {
	t.Parallel()
	db := pgtest.Clone(t)
	s := &catalog.Service{DB: db}
	sku := h100()
	prices := func() (n int) {
		if err := db.QueryRow(t.Context(), "SELECT count(*) FROM sku_prices").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	declare(t, s, db, sku)
	declare(t, s, db, sku)
	if prices() != 1 {
		t.Errorf("the same price made %d rows", prices())
	}
	sku.PriceMinor = 300
	declare(t, s, db, sku)
	sku.PriceMinor = 250 // back again is a change, too
	declare(t, s, db, sku)
	if got, err := s.ActiveSKU(t.Context(), sku.Name); err != nil || got.PriceMinor != 250 || prices() != 3 {
		t.Errorf("offered at %d with %d rows, %v", got.PriceMinor, prices(), err)
	}
	within(t, db, func(tx pgx.Tx) error { // twice at one time
		sku.PriceMinor = 1
		if err := s.Declare(t.Context(), tx, sku.ID, sku.Name, specOf(sku)); err != nil {
			return err
		}
		sku.PriceMinor = 2
		return s.Declare(t.Context(), tx, sku.ID, sku.Name, specOf(sku))
	})
	if got, err := s.ActiveSKU(t.Context(), sku.Name); err != nil || got.PriceMinor != 2 {
		t.Errorf("offered at %d, %v", got.PriceMinor, err)
	}
}

func TestOtherProcessLearnsByHintOrByTime(t *testing.T) {
	t.Parallel()
	db := pgtest.Clone(t)
	now := time.Unix(1_900_000_000, 0)
	declares := &catalog.Service{DB: db}
	hears := &catalog.Service{DB: db, Hints: &hint.Bus{}}
	waits := &catalog.Service{DB: db, Clock: clock.At(func() time.Time { return now })}
	sku := h100()
	declare(t, declares, db, sku)
	at := func(s *catalog.Service) int64 {
		got, err := s.ActiveSKU(t.Context(), sku.Name)
		if err != nil {
			t.Fatal(err)
		}
		return int64(got.PriceMinor)
	}
	if at(hears) != 250 || at(waits) != 250 {
		t.Fatal("not offered")
	}
	sku.PriceMinor = 300
	declare(t, declares, db, sku)
	hears.Hints.Send(catalog.Topic)
	if at(hears) != 300 {
		t.Error("the hint was not heard")
	}
	if at(waits) != 250 {
		t.Error("read again without a reason: offers are not remembered")
	}
	now = now.Add(5 * time.Second)
	if at(waits) != 300 {
		t.Error("still the old price after five seconds")
	}
}

func TestOneImageIsTheDefault(t *testing.T) {
	t.Parallel()
	db := pgtest.Clone(t)
	s := &catalog.Service{DB: db}
	one := catalog.Image{ID: ids.New[ids.Object](), Name: "a", DisplayName: "A", Digest: "sha256:1", Default: true}
	two := catalog.Image{ID: ids.New[ids.Object](), Name: "b", DisplayName: "B", Digest: "sha256:2", Default: true}
	for _, i := range []catalog.Image{one, two, two} {
		within(t, db, func(tx pgx.Tx) error {
			return s.DeclareImage(t.Context(), tx, i.ID, i.Name, json.RawMessage(fmt.Appendf(nil, `{"displayName": %q, "digest": %q, "default": %t}`, i.DisplayName, i.Digest, i.Default)))
		})
	}
	one.Default = false
	if all, err := s.Images(t.Context(), "", 10); err != nil || len(all) != 2 || all[0] != one || all[1] != two {
		t.Errorf("images %+v, %v", all, err)
	}
	within(t, db, func(tx pgx.Tx) error { return s.RetireImage(t.Context(), tx, two.ID) })
	if all, err := s.Images(t.Context(), "", 10); err != nil || len(all) != 1 {
		t.Errorf("after retiring %+v, %v", all, err)
	}
}
