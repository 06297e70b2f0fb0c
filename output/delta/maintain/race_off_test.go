//go:build !race

package maintain_test

const crashStep = 1
