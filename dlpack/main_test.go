package dlpack_test

import (
	"testing"

	"github.com/go-handoff/handoff/internal/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }
