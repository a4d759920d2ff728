# ruff: noqa: RUF001  (look-alike characters are among what is tested)
"""Mathematical answers that a user would argue about."""

import pytest

from podslab.grading.math.answers import compare_quickly, equal_structures
from tests.support.arguable import read_table

RIGHT = r"""
\frac{1}{2}
    \dfrac{1}{2} // 1/2 // 0.5 // \frac12 // \tfrac{1}{2} // $\frac{1}{2}$ // 50% //
    \frac{2}{4} // x=\frac12 // \frac {1} {2} // ½ // \left(\frac{1}{2}\right)
2\sqrt{3}
    \sqrt{12} // 2*sqrt(3) // \frac{6}{\sqrt{3}} // 2 \cdot \sqrt{3} // 2√3 // 2\sqrt 3 //
    \sqrt{3} \cdot 2 // 12^{1/2} // \sqrt{4}\sqrt{3}
(1,2)
    (1, 2) // \left(1,2\right) // (1,2) // (\frac{2}{2}, 2) // (1.0,2.0) // (x,y)=(1,2)
x^2+2x+1
    (x+1)^2 // 1+2x+x^2 // x(x+2)+1 // x^{2} + 2x + 1 // x^2 + x + x + 1 // x² + 2x + 1 //
    (1+x)^2 // y=x^2+2x+1 // f(x) = (x+1)^2
\{1,2,3\}
    \{3,2,1\} // 1,2,3 // {1,2,3} // \{1, 2, 3\}
(-\infty,0]
    (-\infty, 0] // x \le 0 // x\leq 0 // 0 \ge x // (-\infty,0.0] // x \in (-\infty, 0] //
    \left(-\infty, 0\right]
\pi
    \pi // pi // π // 1\pi // \frac{2\pi}{2} // \pi \text{ cm}
12
    12 // 12\text{ cm} // 12.0 // \frac{24}{2} // $12$ // x=12 // 12 units // \$12 // 12\% //
    12 cm
10080
    10,080 // 10080.0 // 10{,}080 // 10\,080 // 1.008\times 10^4
\text{June 20}
    June 20 // \text{June 20} // june 20
\begin{pmatrix}1&2\\3&4\end{pmatrix}
    \begin{bmatrix}1&2\\3&4\end{bmatrix} // \begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix} //
    \begin{pmatrix}1.0&2\\3&\frac{8}{2}\end{pmatrix}
3+4i
    4i+3 // 3+4i // 3 + 4\cdot i // z=3+4i
3,-3
    \pm 3 // x=\pm 3 // -3, 3 // 3 and -3 // 3 or -3 // \{3,-3\} // x=3 or x=-3
2^{10}
    1024 // 2^{10} // 2^10 // 4^5 // 32^2
\frac{\pi}{4}
    π/4 // \pi/4 // \frac14\pi // 0.25\pi // \frac{1}{4}\pi
120^\circ
    120 // 120° // 120^{\circ} // 120 degrees // 120\text{ degrees}
e^2
    e^{2} // e*e // \exp(2) // e \cdot e
\log_2 3
    \log_{2}{3} // \log_2(3) // \frac{\ln 3}{\ln 2}
\emptyset
    \emptyset // \varnothing
y=2x+1
    y = 2x + 1 // 2x+1 // y=1+2x // 2x - y + 1 = 0 // y-1=2x
\frac{x}{y}
    x/y // \dfrac{x}{y} // xy^{-1} // x*y^{-1}
a=1,b=2
    a=1, b=2 // b=2, a=1 // a = 1, b = 2.0
0.\overline{3}
    1/3 // \frac13 // 0.\overline{3}
\sqrt{2}
    2^{1/2} // sqrt(2) // \sqrt2 // √2 // \frac{2}{\sqrt{2}} // 2^{0.5}
5
    5 = 10/2 // x = 5 // 5. // answer: 5 // the answer is $5$ // 5
x=5
    5=x // x=5.0 // 5
3:4
    3:4 // 3 : 4
10\%
    10\% // 10% // 0.1 // 1/10 // 10 // 10 percent
-\frac{1}{3}
    -1/3 // \frac{-1}{3} // \frac{1}{-3} // -\dfrac13
x^2-1
    (x-1)(x+1) // -1+x^2 // x^2 - 1^2
\frac{1}{x+1}
    1/(x+1) // (x+1)^{-1}
2x
    2*x // x*2 // x+x // 2\cdot x // 2 \times x // 2x^1 // 2(x)
x \ge 3
    [3,\infty) // x≥3 // 3 ≤ x // x >= 3 // x\geq 3
(-\infty,1)\cup(2,\infty)
    (2,\infty)\cup(-\infty,1) // x<1 or x>2 // x<1 \text{ or } x>2 // x > 2 or x < 1
6\sqrt{2}
    6√2 // \sqrt{72} // 6 \cdot 2^{1/2} // 6\sqrt{2}\text{ cm}
\frac{\sqrt{2}}{2}
    1/\sqrt{2} // \frac{1}{\sqrt{2}} // \sqrt{\frac{1}{2}} // \sqrt{2}/2 // \frac{1}{2}\sqrt{2}
0
    0 // 0.0 // -0 // 0/5 // x=0
\infty
    \infty // ∞ // +\infty
2\frac{1}{2}
    5/2 // 2.5 // 2 1/2 // \frac{5}{2}
a^2b
    b a^2 // a*a*b // a^{2}b // ba^2
\cos\theta
    cos(\theta) // \cos(\theta) // \cos{\theta} // \sin(\frac{\pi}{2}-\theta)
2,3,5
    2, 3, and 5 // 2, 3 and 5 // 5,3,2 // 2;3;5 // \{2,3,5\}
17
    Therefore, the answer is 17. // \text{The answer is } 17 // 17 apples
1/8
    12.5\% // 0.125 // \frac18 // 2/16
\sqrt[3]{4}
    4^{1/3} // 2^{2/3} // \sqrt[3]{4}
|x-1|
    |1-x| // |x-1| // \left|x-1\right| // \lvert x-1\rvert
\ln 2
    ln(2) // \ln{2} // \ln(2)
x^{2y}
    x^{2y} // x^{2*y} // x^{y\cdot 2}
[0,1]
    0\le x\le 1 // [0, 1] // 0 ≤ x ≤ 1 // 1 \ge x \ge 0 // x\in[0,1]
x=1
    1 // x = 1.0
24\pi\text{ cm}^3
    24\pi // 24π cm³ // 24\pi \text{ cm}^3 // 24\pi\text{ cubic centimeters} //
    24\pi \text{ cm}^{3}
\frac{3}{4}
    0.75 // 75\% // 3/4 // \frac{6}{8} // ¾
(3,-1)
    (3,-1) // ( 3 , -1 ) // (x,y)=(3,-1) // (3,−1) // (6/2,-1)
1000000
    1,000,000 // 10^6 // 1 million // 1{,}000{,}000 // 1e6
\frac{n(n+1)}{2}
    n(n+1)/2 // \frac{n^2+n}{2} // \frac{1}{2}n(n+1) // \frac{n^2}{2}+\frac n2
x < 1 \text{ or } x > 2
    x<1 or x>2 // x > 2 or x < 1 // (-\infty,1)\cup(2,\infty) // 1>x or 2<x
2,3
    x=2 or x=3 // 2 or 3
2\pi
    2π cm // 2\pi inches // 2 pi // 2\pi square units
5\sqrt{2}\text{ miles}
    5\sqrt{2} // 5\sqrt{2} miles // \sqrt{50}\text{ mi}
"""
WRONG = r"""
\frac{1}{2}
    2 // 1/3 // 0.49999 // \frac{2}{1} // 1 // 1/2 or 1/3 // \frac{-1}{2} // -0.5 //
    \frac{1}{2}x // 12 // 0.5i
2\sqrt{3}
    3.46 // 2\sqrt{2} // \sqrt{6} // -2\sqrt{3} // \pm 2\sqrt{3} // 3\sqrt{2} // \sqrt[3]{12} //
    3.4641016151377544
(1,2)
    (2,1) // 1,2 // [1,2] // (1,2] // (1,2,3) // (1) // {1,2} // 12 // (1,2),(2,1)
x^2+2x+1
    x^2+2x // (x-1)^2 // x^2+2x+2 // (x+1) // x^2+2x+1=0 // x^3+2x+1 // X // (x+1)^2 + c
\{1,2,3\}
    \{1,2\} // \{1,2,3,4\} // (1,2,3) // [1,3] // 1,2 // 123
(-\infty,0]
    (-\infty,0) // x<0 // x \ge 0 // [-\infty,0) // (0,\infty) // [0,\infty)
\pi
    3.14 // 22/7 // 3.1416 // 180 // 2\pi // \pi^2 // p // i
12
    12x // 21 // -12 // 12! // 12 or 13 // 12\sqrt{2} // 3*4 // 3 \times 4 // 1.2 // 120 //
    12^2 // (12,13) // {12,13}
10080
    10.080 // 1080 // 100,80 // 10080x
\text{June 20}
    20 June 2020 // July 20 // June 2 // June 200
\begin{pmatrix}1&2\\3&4\end{pmatrix}
    \begin{pmatrix}1&3\\2&4\end{pmatrix} // \begin{pmatrix}1&2\\3&5\end{pmatrix} // 1,2,3,4 //
    \begin{pmatrix}1&2&3&4\end{pmatrix} // \begin{vmatrix}1&2\\3&4\end{vmatrix}
3+4i
    3-4i // 4+3i // 7i // 5 // 7 // 3+4 // -3-4i
3,-3
    3 // -3 // (3,-3) // |3| // 9
2^{10}
    2^{11} // 1023 // 20 // 210
\frac{\pi}{4}
    45 // 0.785 // \frac{4}{\pi} // \frac{3\pi}{4} // -\frac{\pi}{4} // π4 // \arctan(1)
120^\circ
    60 // 120\pi // 12 // -120 // 120 radians
e^2
    7.389 // 2e // e // e^{-2} // e^3
\log_2 3
    \log_3 2 // 1.585 // \log 3 // \ln 3
\emptyset
    0 // \{0\} // \{\emptyset\}
y=2x+1
    y=2x // x=2y+1 // y=-2x+1 // y=2x-1 // 2x+1=0
\frac{x}{y}
    y/x // xy // \frac{y}{x} // x-y // x
a=1,b=2
    a=2,b=1 // a=1 // a=1,b=3
0.\overline{3}
    0.3 // 0.33 // 0.333333333333 // 3
\sqrt{2}
    1.414 // 2 // \sqrt{3} // -\sqrt{2} // \sqrt[3]{2} // 1.4142135623730951 // \sqrt{2}x
5
    5=4+1 // 4+1 // 6-1
x=5
    x=-5 // y=5 // x=5,6
3:4
    4:3 // 3:5 // 34
10\%
    0.1\% // 100 // 1%
-\frac{1}{3}
    1/3 // \frac{-1}{-3} // -3 // -0.333 // \frac{3}{-1} // -\frac{1}{-3}
x^2-1
    (x-1)(x+1)=0 // x^2+1 // (x-1)^2
\frac{1}{x+1}
    1/x+1 // x+1 // \frac{1}{x}+1
2x
    2X // 2+x // x^2 // 2 // x
x \ge 3
    x>3 // (3,\infty) // x \le 3 // 3 // x=3
(-\infty,1)\cup(2,\infty)
    x<1 and x>2 // x<1 // (1,2) // [2,\infty)\cup(-\infty,1] // x \le 1 or x>2 //
    (-\infty,1),(2,\infty) // x<1 or y>2 // x<1, y>2
6\sqrt{2}
    8.485 // 6\sqrt2+0.0001 // 12 // 62
\frac{\sqrt{2}}{2}
    0.707 // \sqrt{2} // \frac{2}{\sqrt{2}} // \sin 45^\circ
0
    O // 1/0 // 0x // null // none // 0/0 // 0^0 // 1-1
\infty
    -\infty // 0 // 1/0 // large
2\frac{1}{2}
    2\cdot\frac12 // 21/2 // 1 // 2/12 // \frac{2}{5}
a^2b
    ab^2 // a^{2b} // (ab)^2 // a^2+b
\cos\theta
    \sin\theta // \cos x // \cos // -\cos\theta // \cos^2\theta
2,3,5
    2,3 // 2,3,5,7 // 235 // 2 3 5 // (2,3,5)
17
    17 or 18 // 1 7 // seventeen // 17/18 // 71
1/8
    0.12 // 8 // 1.25
\sqrt[3]{4}
    \sqrt{4} // 4/3 // 1.587 // 3\sqrt{4}
|x-1|
    x-1 // 1-x // |x+1| // -|x-1|
\ln 2
    0.693 // \ln 3 // 2
x^{2y}
    x^2y // x^{2}y // x^{y^2} // 2xy
[0,1]
    0<x<1 // (0,1) // 0,1 // [1,0] // [0,1) // {0,1}
x=1
    y=1 // x=1,2 // x \ne 1 // x>1 // x=\pm 1 // x=-1
24\pi\text{ cm}^3
    24 // 24\pi^3 // 12\pi // 24\pi\text{ cm}^2 // 24\pi \text{ inches} // 24\pi\text{ m}^3 //
    24\pi\text{ square centimeters}
\frac{3}{4}
    4/3 // 0.7 // 3.4 // 34 // 3 4 // 3,4 // \frac{3}{4}\pi // -\frac34
(3,-1)
    (-1,3) // 3,-1 // (3,1) // (y,x)=(3,-1) // [3,-1] // (3,-1,0)
1000000
    1,000 // 100000 // 1.000.000 // 10^5
\frac{n(n+1)}{2}
    n(n+1) // n^2/2 // \frac{n(n-1)}{2} // \binom{n}{2}
x < 1 \text{ or } x > 2
    x<1 or y>2 // x<1 and x>2 // x<1 // x<2 or x>1 // x \le 1 or x > 2
2,3
    x=2 or y=3 // 2 or 4
2\pi
    2 phi // 2\pi cm x // 2\pi ab
5\sqrt{2}\text{ miles}
    5\sqrt{2} km // 5 miles // 5\sqrt{2}\text{ feet}
"""


def decide(gold, answer):
    quick = compare_quickly(gold, answer)
    return equal_structures(gold, answer) if quick is None else quick


@pytest.mark.parametrize(("gold", "answer"), read_table(RIGHT))
def test_an_answer_that_a_user_would_take_is_right(gold, answer):
    assert decide(gold, answer) is True


@pytest.mark.parametrize(("gold", "answer"), [*read_table(WRONG), ("0", "")])
def test_an_answer_that_a_user_would_refuse_is_wrong(gold, answer):
    assert decide(gold, answer) is False
