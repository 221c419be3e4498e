// elementary_constants.h: what the scalar and the vector forms of the elementary functions share.
//
// Both evaluate, in binary64, the same operations in the same order (elementary.cc explains them), so they
// agree on every machine; that they are correctly rounded is shown by elementary_slow_test.cc.
//
// Determinism: constants only.
#pragma once

#include <cstdint>

namespace samestep::elementary {

// Adding 1.5 * 2^52 rounds to an integer, which then stands in the low bits.
inline constexpr double kRounder = 0x1.8p52;

inline constexpr double kLog2E = 0x1.71547652b82fep0;
inline constexpr double kLn2High = 0x1.62e42fefa39efp-1;
inline constexpr double kLn2Low = 0x1.abc9e3b39803fp-56;

// exp(r) - 1 = r + r^2 * (c[0] + c[1]*r + ...) for |r| <= ln(2)/2; error 2^-54.4 of it.
inline constexpr double kExpm1[] = {0x1.0000000000001p-1,  0x1.5555555555558p-3,  0x1.5555555553ccdp-5,
                                    0x1.111111110f8d5p-7,  0x1.6c16c178b0fdbp-10, 0x1.a01a01afbb418p-13,
                                    0x1.a019b8a06dbffp-16, 0x1.71ddf779b2abdp-19, 0x1.2891ef2d385cdp-22,
                                    0x1.af61dccd80562p-26};

// 2^r - 1 = r * (c[0] + c[1]*r + ...) for |r| <= 1/2; error 2^-56.9.
inline constexpr double kExp2m1[] = {0x1.62e42fefa39efp-1,  0x1.ebfbdff82c598p-3,  0x1.c6b08d704a1d3p-5,
                                     0x1.3b2ab6fba1ebcp-7,  0x1.5d87fe7874962p-10, 0x1.43091309470abp-13,
                                     0x1.ffcbfd4783777p-17, 0x1.62bfd4d48e41ep-20, 0x1.b523363f9145ap-24,
                                     0x1.e605ad036278bp-28, 0x1.ec6aabe6fc33dp-32};

// log((1+s)/(1-s)) = 2*s + s*z*(c[0] + c[1]*z + ...), z = s^2, |s| <= 0.1716; error 2^-65.7 of it.
inline constexpr double kLog[] = {0x1.5555555555555p-1, 0x1.9999999999d58p-2, 0x1.249249242f0a3p-2,
                                  0x1.c71c725c1a07p-3,  0x1.745cdb9028218p-3, 0x1.3b2153d48defap-3,
                                  0x1.0f4a9be5a1bebp-3, 0x1.101e903bdfd93p-3};

// The bits of 1, and how far those of sqrt(1/2) are below them.
inline constexpr uint64_t kOneBits = 0x3FF0000000000000;
inline constexpr uint64_t kSqrtHalfToOne = 0x0009'5F61'9980'C433;

// -log(1 - erf(x)) = x * (c[0] + c[1]*x + ...) for 0 <= x <= 3.95. The error that this makes in erf(x) is
// 2^-54.7 of it.
inline constexpr double kErf[] = {
    0x1.20dd750429b6dp+0,   0x1.45f306dc9c8dfp-1,   0x1.a4f4e2a1a8e68p-4,   -0x1.396685902e372p-6,
    -0x1.b6b6a49f5d260p-13, 0x1.bca6951c4f8cep-10,  -0x1.356662b48066ep-11, 0x1.b2af3cf793c9cp-16,
    0x1.0e239aeedd5e3p-14,  -0x1.efa763ae3133cp-16, 0x1.a1e55631d1576p-19,  0x1.aea09bbacd27ap-19,
    -0x1.1c2078deeb2f6p-19, 0x1.5622ad1a0481ap-21,  -0x1.e0b923839fbaap-25, -0x1.6c0d3e601d417p-25,
    0x1.aa84b3a96b6c2p-26,  -0x1.041701ffd1165p-27, 0x1.a8c9123c69e01p-30,  -0x1.e139dfcc2d067p-33,
    0x1.6e5677443c162p-36,  -0x1.530f35eeb8891p-40, 0x1.2141abca02396p-45};

// Inputs whose exact value is so close to the middle of two neighbours that binary64 falls on the wrong side:
// all there are, by the slow test. Exp and tanh have none. Given by their bits.
struct Exception {
  uint32_t input, result;
};
inline constexpr Exception kExp2Exceptions[] = {{0x3B429D37, 0x3F804385}, {0xBCF3A937, 0x3F7AC6B1}};
inline constexpr Exception kLogExceptions[] = {{0x41178FEB, 0x400FE5E7},
                                               {0x4C5D65A5, 0x418F034B},
                                               {0x3C413D3A, 0xC08E158F},
                                               {0x65D890D3, 0x4254D1F9},
                                               {0x6F31A8EC, 0x42845A89}};

// Beyond these the result no longer changes (tanh, erf: 1; exp: 0 or infinity).
inline constexpr float kExpLargest = 89, kExpLeast = -104;
inline constexpr float kExp2Largest = 129, kExp2Least = -152;
inline constexpr float kTanhLargest = 10;
inline constexpr float kErfLargest = 0x1.f9999ap1f;  // 3.95

// exp below this is taken as +0 by ExpZ.
inline constexpr float kExpZLeast = -87;

// Constants of the activations, by their bits.
inline constexpr float kSqrtHalf = 0x1.6a09e6p-1f;       // 3f3504f3, 1/sqrt(2)
inline constexpr float kNormalPeak = 0x1.988454p-2f;     // 3ecc422a, 1/sqrt(2 pi)
inline constexpr float kSqrtTwoOverPi = 0x1.988454p-1f;  // 3f4c422a
inline constexpr float kGeluTanhCubic = 0x1.6e4e26p-5f;  // 3d372713, 0.044715

}  // namespace samestep::elementary
