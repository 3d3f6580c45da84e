package secret

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pgtest"
	"github.com/gpuaas/gpuaas/internal/pki"
)

func TestStatementsFitTheSchema(t *testing.T) {
	t.Parallel()
	pgtest.Prepare(t, []string{"certificates"}, map[string]string{
		"insertCertificate": insertCertificate, "adoptCertificate": adoptCertificate, "useCertificate": useCertificate, "selectCertificates": selectCertificates, "selectInForce": selectInForce, "selectUnrevoked": selectUnrevoked, "revokeCertificates": revokeCertificates,
		"lockCertificates": lockCertificates, "selectStands": selectStands, "selectCertificatesOf": selectCertificatesOf, "selectNewest": selectNewest, "selectExpiry": selectExpiry,
	})
}

func TestKeyStatementsFitTheSchema(t *testing.T) {
	t.Parallel()
	pgtest.Prepare(t, []string{"signing_keys", "key_sets"}, map[string]string{
		"selectStored": selectStored, "selectPurposes": selectPurposes, "selectPublicParts": selectPublicParts, "selectReplaced": selectReplaced, "insertStored": insertStored, "endStored": endStored, "selectForReseal": selectForReseal,
		"resealStored": resealStored, "lockStored": lockStored, "selectPublic": selectPublic, "selectKeySets": selectKeySets, "nextKeySet": nextKeySet,
		"selectNewestReleases": selectNewestReleases, "lockKeySets": lockKeySets, "insertKeySet": insertKeySet,
	})
}

type bundle struct {
	*Certificates

	t    *testing.T
	db   *pgxpool.Pool
	node ids.Node
	now  time.Time
}

func setup(t *testing.T) *bundle {
	t.Helper()
	db := pgtest.Clone(t)
	return &bundle{&Certificates{DB: db}, t, db, ids.New[ids.Node](), time.Now()}
}

func (b *bundle) do(do func(pgx.Tx) error) {
	b.t.Helper()
	if err := pgx.BeginFunc(b.t.Context(), b.db, do); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bundle) issue(serial string) {
	b.t.Helper()
	b.do(func(tx pgx.Tx) error {
		_, err := b.Renewed(b.t.Context(), tx, b.node, pki.Certificate{Serial: serial, NotAfter: time.Now().Add(24 * time.Hour)}, "stamp")
		return err
	})
}

func (b *bundle) revoke() (serials []string) {
	b.t.Helper()
	b.do(func(tx pgx.Tx) (err error) {
		serials, err = b.Revoke(b.t.Context(), tx, b.node, "lost")
		return err
	})
	return serials
}

func (b *bundle) isValid(serial string) bool {
	b.t.Helper()
	err := b.Check(b.t.Context(), b.node, serial, b.now)
	if err != nil && errs.CodeOf(err) != errs.CertificateRevoked {
		b.t.Fatal(err)
	}
	return err == nil
}

// INV-40: within a second of the commit no request passes, on a server that has
// heard nothing of it.
func TestINV40RevokedWithinASecond(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.issue("01")
	if !b.isValid("01") {
		t.Fatal("a fresh certificate is not valid")
	}
	if serials := b.revoke(); len(serials) != 1 || serials[0] != "01" {
		t.Errorf("revoked %v", serials)
	}
	b.now = b.now.Add(maxAge)
	if b.isValid("01") {
		t.Error("it is valid a second after it was revoked")
	}
	fallen, err := b.Fallen(t.Context(), []string{"01", "02"}, b.now)
	if err != nil || len(fallen) != 2 {
		t.Errorf("fallen: %v, %v", fallen, err)
	}
}

// An answer may be lost on the way: what was in force before stays so for the
// overlap, however old it is, and then no longer.
func TestRenewedOverlaps(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.issue("01")
	if _, err := b.db.Exec(t.Context(), `UPDATE certificates SET created_at = now() - interval '12 hours'`); err != nil {
		t.Fatal(err)
	}
	b.issue("02")
	b.issue("03") // the second answer was lost, too
	for _, serial := range []string{"01", "02", "03"} {
		if !b.isValid(serial) {
			t.Errorf("%s is not valid", serial)
		}
	}
	if _, err := b.db.Exec(t.Context(), `UPDATE certificates SET not_after = not_after - $1::interval`, overlap); err != nil {
		t.Fatal(err)
	}
	b.now = b.now.Add(maxAge)
	for serial, want := range map[string]bool{"01": false, "02": false, "03": true} {
		if b.isValid(serial) != want {
			t.Errorf("%s after the overlap: %v", serial, !want)
		}
	}
	b.revoke()
	var left int
	if err := b.db.QueryRow(t.Context(), `SELECT count(*) FROM certificates WHERE status <> 'revoked' AND not_after > now()`).Scan(&left); err != nil || left != 0 {
		t.Errorf("%d certificates survive their node's revocation, %v", left, err)
	}
}

// INV-41: a serial is valid for its own node only.
func TestINV41ForeignSerial(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.issue("01")
	b.node = ids.New[ids.Node]()
	if b.isValid("01") {
		t.Error("another node's serial is valid")
	}
}

// A certificate may be used before the table is read again.
func TestAddedAtOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	if b.isValid("01") {
		t.Fatal("nothing was issued")
	}
	b.issue("01")
	b.Added(b.node, "01", InForce{})
	if !b.isValid("01") {
		t.Error("it has to wait")
	}
}

// INV-65: a certificate counts for a rotation once its node has used it, and the enrolment of a node
// rises with each enrolment only.
func TestFirstUseIsRecorded(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.issue("01")
	newest := func() Newest {
		t.Helper()
		all, err := b.Newest(t.Context())
		if err != nil || len(all) != 1 {
			t.Fatal(all, err)
		}
		return all[0]
	}
	if newest().Follows("stamp", "") {
		t.Error("it follows before its first use")
	}
	for range 2 {
		if !b.isValid("01") || !newest().Follows("stamp", "") || newest().Follows("stamp", "other") || newest().Follows("old", "") {
			t.Errorf("after its first use: %+v", newest())
		}
	}
	b.issue("0a") // it has used 01 and receives another one
	if !newest().Follows("stamp", "") {
		t.Error("it does not follow while a renewal is on the way")
	}
	var again InForce
	b.do(func(tx pgx.Tx) (err error) {
		again, err = b.Enrolled(t.Context(), tx, b.node, pki.Certificate{Serial: "02", NotAfter: time.Now().Add(time.Hour)}, "stamp")
		return err
	})
	b.issue("03")
	b.now = b.now.Add(maxAge)
	for serial, want := range map[string]int64{"01": 0, "02": 1, "03": 1} {
		if f, err := b.Find(t.Context(), b.node, serial, b.now); err != nil || f.Enrolment != want || again.Enrolment != 1 {
			t.Errorf("%s: %+v, %v", serial, f, err)
		}
	}
}
