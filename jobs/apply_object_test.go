package jobs_test

import (
	"testing"

	"github.com/gpuaas/gpuaas/desired"
)

// A spec that cannot be applied is counted for its generation and epoch, with the reason. A success ends the count.
func TestFailuresToApplyAreCounted(t *testing.T) {
	t.Parallel()
	b := setup(t)
	args := b.declare(desired.KindSKU, "thing", `{"displayName":"A","gpuModel":"A100","memoryGiB":40,"isolation":"host_user","maxGPUs":4,"active":true,"price":{"currency":"EUR","amountMinor":5}}`)
	b.exec(`CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''disk full''; END'`)
	b.exec(`CREATE TRIGGER dies BEFORE INSERT ON sku_catalog FOR EACH ROW EXECUTE FUNCTION fail()`)
	for want := 1; want <= 2; want++ {
		b.work(args)
		if n := b.count(`SELECT failures FROM observed_objects WHERE uid = $1 AND failed_generation = 1 AND generation = 0 AND failure LIKE '%disk full%'`, args.Object); n != want {
			t.Errorf("%d failures, want %d", n, want)
		}
		b.exec(`DELETE FROM river.river_job WHERE state <> 'running'`)
	}
	b.exec(`DROP TRIGGER dies ON sku_catalog`)
	b.done(args)
	if n := b.count(`SELECT count(*) FROM observed_objects WHERE uid = $1 AND generation = 1 AND failures = 0`, args.Object); n != 1 {
		t.Error("a success did not end the count")
	}
}

// An object that was stored before its kind had a default for a field is applied with the default.
func TestASpecWithoutDefaultsIsApplied(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.done(b.declare(desired.KindOSImage, "old", `{"displayName":"U","digest":"sha256:00"}`))
	if n := b.count(`SELECT count(*) FROM os_images WHERE name = 'old' AND NOT is_default`); n != 1 {
		t.Errorf("%d images", n)
	}
}
