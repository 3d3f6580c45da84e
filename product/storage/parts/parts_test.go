package parts

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/gpuaas/gpuaas/product/storage/blob"
)

// The parts of every layout have possible numbers and sizes, and are the file together.
func TestLayouts(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.Int64Range(0, 5<<40).Draw(t, "size")
		l, err := Choose(size, rapid.SampledFrom([]int64{0, 0, blob.MinPart, 100 << 20, blob.MaxPart}).Draw(t, "part"))
		if err != nil {
			if (size+blob.MaxParts-1)/blob.MaxParts <= blob.MinPart {
				t.Fatalf("%d bytes: %v", size, err)
			}
			return
		}
		if n := l.Count(); n < 1 || n > blob.MaxParts {
			t.Fatalf("%d bytes in %d parts", size, n)
		}
		var sum int64
		var all []blob.Part
		for number := 1; number <= int(l.Count()); number++ {
			n, err := l.SizeOf(number, -1)
			if err != nil || n > blob.MaxPart || n < blob.MinPart && int64(number) < l.Count() {
				t.Fatalf("part %d has %d bytes: %v", number, n, err)
			}
			sum += n
			all = append(all, blob.Part{Number: number, Size: n})
		}
		if sum != size || l.Whole(all) != nil || l.Whole(all[1:]) == nil {
			t.Fatalf("%d bytes in parts of %d: %d, %v", size, l.Part, sum, l.Whole(all))
		}
		if _, err := l.SizeOf(len(all)+1, -1); err == nil {
			t.Fatal("a part after the last one")
		}
	})
}
