package protocol

import (
	"bytes"
	"cmp"
	"crypto/ed25519"
	"crypto/sha512"
	"encoding/hex"
	"encoding/json"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// order is the order of the group's base point, 2^252 + 2774…8493.
var order, _ = new(big.Int).SetString("7237005577332262213973186563042994240857116359379907606001950938285454250989", 10)

func little(n *big.Int) []byte {
	b := make([]byte, ed25519.PublicKeySize)
	n.FillBytes(b)
	slices.Reverse(b)
	return b
}

func number(b []byte) *big.Int {
	b = slices.Clone(b)
	slices.Reverse(b)
	return new(big.Int).SetBytes(b)
}

// accepts returns whether a node accepts a task.
func accepts(key, body, signature []byte) bool {
	_, err := signer(Signed{Kid: "k", Body: body, Signature: signature}, map[string][]byte{"k": key})
	return err == nil
}

// smallOrder are encodings of the eight points that any multiple of eight maps to
// the neutral element, and those of their encodings that are not canonical.
var smallOrder = []string{
	"0100000000000000000000000000000000000000000000000000000000000000",
	"ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
	"0000000000000000000000000000000000000000000000000000000000000000",
	"0000000000000000000000000000000000000000000000000000000000000080",
	"26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
	"26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85",
	"c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
	"c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",
	"0100000000000000000000000000000000000000000000000000000000000080",
	"edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
	"edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
	"eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
	"eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
	"ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
}

// One signature is right and everything made of it is not: the classes of
// Wycheproof's EdDSA vectors, made here.
func TestINV42OneSignatureIsRight(t *testing.T) {
	t.Parallel()
	for i := range 8 {
		seed := sha512.Sum512_256([]byte{byte(i)})
		key := ed25519.NewKeyFromSeed(seed[:])
		public, body := key.Public().(ed25519.PublicKey), bytes.Repeat([]byte{byte(i)}, i*7)
		right := ed25519.Sign(key, body)
		if !accepts(public, body, right) {
			t.Fatal("the right signature is rejected")
		}
		r, s := right[:32], right[32:]
		wrong := map[string][]byte{"empty": nil, "twice": append(slices.Clone(right), right...), "only R": r, "only S": s, "swapped": append(slices.Clone(s), r...), "zeros": make([]byte, 64)}
		for name, of := range map[string]*big.Int{
			"S + L": order, "S + 2L": new(big.Int).Lsh(order, 1), "S + 4L": new(big.Int).Lsh(order, 2), "S + 8L": new(big.Int).Lsh(order, 3),
		} {
			if sum := new(big.Int).Add(number(s), of); sum.BitLen() <= 256 {
				wrong[name] = append(slices.Clone(r), little(sum)...)
			}
		}
		for name, scalar := range map[string]*big.Int{
			"S = 0": {}, "S = 1": big.NewInt(1), "S = L": order, "S = L - 1": new(big.Int).Sub(order, big.NewInt(1)), "S = -S": new(big.Int).Sub(order, number(s)),
			"S = 2^256 - 1": new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), 256), big.NewInt(1)),
		} {
			wrong[name] = append(slices.Clone(r), little(scalar)...)
		}
		for _, point := range smallOrder {
			encoded, err := hex.DecodeString(point)
			if err != nil {
				t.Fatal(err)
			}
			wrong["R of small order "+point] = append(slices.Clone(encoded), s...)
			wrong["R of small order "+point+", S = 0"] = append(slices.Clone(encoded), make([]byte, 32)...)
		}
		for n := range right { // truncated everywhere, and grown
			wrong["the first bytes"+string(rune(n))] = right[:n]
		}
		wrong["a byte more"] = append(slices.Clone(right), 0)
		wrong["a byte before"] = append([]byte{0}, right...)
		for bit := range len(right) * 8 {
			flipped := slices.Clone(right)
			flipped[bit/8] ^= 1 << (bit % 8)
			wrong["bit "+string(rune(bit))] = flipped
		}
		for name, signature := range wrong {
			if accepts(public, body, signature) {
				t.Errorf("key %d: %s is accepted", i, name)
			}
		}
		for name, of := range map[string][]byte{"short": public[:31], "long": append(slices.Clone(public), 0), "none": nil} {
			if accepts(of, body, right) {
				t.Errorf("a %s key is accepted", name)
			}
		}
		if accepts(public, append(slices.Clone(body), 'x'), right) {
			t.Error("a longer body is accepted")
		}
	}
}

// The verdicts are Wycheproof's, where its vectors are at hand: a checkout in
// WYCHEPROOF_DIR, or in the folder wycheproof of the shared data.
func TestVerdictsAreWycheproofs(t *testing.T) {
	t.Parallel()
	path := filepath.Join(cmp.Or(os.Getenv("WYCHEPROOF_DIR"), "../../../shared/wycheproof"), "testvectors_v1", "ed25519_test.json")
	text, err := os.ReadFile(path)
	if os.IsNotExist(err) && os.Getenv("WYCHEPROOF_DIR") == "" {
		t.Skip("set WYCHEPROOF_DIR to a checkout of github.com/C2SP/wycheproof to compare with its vectors")
	}
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		NumberOfTests int
		TestGroups    []struct {
			PublicKey struct{ Pk string }
			Tests     []struct {
				TcId             int
				Comment          string
				Msg, Sig, Result string
			}
		}
	}
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	ran := 0
	for _, group := range file.TestGroups {
		key, err := hex.DecodeString(group.PublicKey.Pk)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range group.Tests {
			body, err := hex.DecodeString(c.Msg)
			if err != nil {
				t.Fatal(err)
			}
			signature, err := hex.DecodeString(c.Sig)
			if err != nil {
				t.Fatal(err)
			}
			ran++
			if got := accepts(key, body, signature); got != (c.Result == "valid") {
				t.Errorf("%d %s: %v, Wycheproof expects %s", c.TcId, c.Comment, got, c.Result)
			}
		}
	}
	if ran == 0 || ran != file.NumberOfTests {
		t.Errorf("%d of %d vectors ran", ran, file.NumberOfTests)
	}
}
