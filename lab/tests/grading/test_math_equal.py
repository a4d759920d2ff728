# ruff: noqa: RUF001  (look-alike characters are among what is tested)
"""Mathematical answers, among them such that a user would argue about."""

import pytest

from podsgrading.math.answers import compare_quickly, equal_structures, grade_answers
from podsgrading.math.structure import read_structure
from podsgrading.pool import GradingPool
from podslab.tasks import get_task
from tests.support.arguable import read_table

RIGHT = r"""
\frac{1}{2} :: \dfrac{1}{2} // 1/2 // 0.5 // \frac12 // \tfrac{1}{2} // $\frac{1}{2}$ // 50% //
    \frac{2}{4} // x=\frac12 // \frac {1} {2} // ½ // \left(\frac{1}{2}\right)
2\sqrt{3} :: \sqrt{12} // 2*sqrt(3) // \frac{6}{\sqrt{3}} // 2 \cdot \sqrt{3} // 2√3 // 2\sqrt 3 //
    \sqrt{3} \cdot 2 // 12^{1/2} // \sqrt{4}\sqrt{3} // 2\sqrt{3} \text{ square units} //
    AB = \sqrt{12}\text{ cm}
(1,2) :: (1, 2) // \left(1,2\right) // (1,2) // (\frac{2}{2}, 2) // (1.0,2.0) // (x,y)=(1,2) //
    \langle 1,2\rangle
x^2+2x+1 :: (x+1)^2 // 1+2x+x^2 // x(x+2)+1 // x^{2} + 2x + 1 // x^2 + x + x + 1 // x² + 2x + 1 //
    (1+x)^2 // y=x^2+2x+1 // f(x) = (x+1)^2
\{1,2,3\} :: \{3,2,1\} // 1,2,3 // {1,2,3} // \{1, 2, 3\}
(-\infty,0] :: (-\infty, 0] // x \le 0 // x\leq 0 // 0 \ge x // (-\infty,0.0] //
    x \in (-\infty, 0] // \left(-\infty, 0\right]
\pi :: \pi // pi // π // 1\pi // \frac{2\pi}{2} // \pi \text{ cm}
12 :: 12 // 12\text{ cm} // 12.0 // \frac{24}{2} // $12$ // x=12 // 12 units // \$12 // 12\% //
    12 cm
10080 :: 10,080 // 10080.0 // 10{,}080 // 10\,080 // 1.008\times 10^4
\text{June 20} :: June 20 // \text{June 20} // june 20
\begin{pmatrix}1&2\\3&4\end{pmatrix} :: \begin{bmatrix}1&2\\3&4\end{bmatrix} //
    \begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix} // \begin{pmatrix}1.0&2\\3&\frac{8}{2}\end{pmatrix}
3+4i :: 4i+3 // 3+4i // 3 + 4\cdot i // z=3+4i
3,-3 :: \pm 3 // x=\pm 3 // -3, 3 // 3 and -3 // 3 or -3 // \{3,-3\} // x=3 or x=-3
2^{10} :: 1024 // 2^{10} // 2^10 // 4^5 // 32^2
\frac{\pi}{4} :: π/4 // \pi/4 // \frac14\pi // 0.25\pi // \frac{1}{4}\pi
120^\circ :: 120 // 120° // 120^{\circ} // 120 degrees // 120\text{ degrees}
e^2 :: e^{2} // e*e // \exp(2) // e \cdot e
\log_2 3 :: \log_{2}{3} // \log_2(3) // \frac{\ln 3}{\ln 2}
\emptyset :: \emptyset // \varnothing
y=2x+1 :: y = 2x + 1 // 2x+1 // y=1+2x // 2x - y + 1 = 0 // y-1=2x
\frac{x}{y} :: x/y // \dfrac{x}{y} // xy^{-1} // x*y^{-1}
a=1,b=2 :: a=1, b=2 // b=2, a=1 // a = 1, b = 2.0
0.\overline{3} :: 1/3 // \frac13 // 0.\overline{3}
\sqrt{2} :: 2^{1/2} // sqrt(2) // \sqrt2 // √2 // \frac{2}{\sqrt{2}} // 2^{0.5}
5 :: 5 = 10/2 // x = 5 // 5. // answer: 5 // the answer is $5$ // 5 // 5_{10} // x=5
x=5 :: 5=x // x=5.0 // 5
3:4 :: 3:4 // 3 : 4
10\% :: 10\% // 10% // 0.1 // 1/10 // 10 // 10 percent
-\frac{1}{3} :: -1/3 // \frac{-1}{3} // \frac{1}{-3} // -\dfrac13
x^2-1 :: (x-1)(x+1) // -1+x^2 // x^2 - 1^2
\frac{1}{x+1} :: 1/(x+1) // (x+1)^{-1}
2x :: 2*x // x*2 // x+x // 2\cdot x // 2 \times x // 2x^1 // 2(x)
x \ge 3 :: [3,\infty) // x≥3 // 3 ≤ x // x >= 3 // x\geq 3
(-\infty,1)\cup(2,\infty) :: (2,\infty)\cup(-\infty,1) // x<1 or x>2 // x<1 \text{ or } x>2 //
    x > 2 or x < 1
6\sqrt{2} :: 6√2 // \sqrt{72} // 6 \cdot 2^{1/2} // 6\sqrt{2}\text{ cm}
\frac{\sqrt{2}}{2} :: 1/\sqrt{2} // \frac{1}{\sqrt{2}} // \sqrt{\frac{1}{2}} // \sqrt{2}/2 //
    \frac{1}{2}\sqrt{2}
0 :: 0 // 0.0 // -0 // 0/5 // x=0
\infty :: \infty // ∞ // +\infty
2\frac{1}{2} :: 5/2 // 2.5 // 2 1/2 // \frac{5}{2}
a^2b :: b a^2 // a*a*b // a^{2}b // ba^2
\cos\theta :: cos(\theta) // \cos(\theta) // \cos{\theta} // \sin(\frac{\pi}{2}-\theta)
2,3,5 :: 2, 3, and 5 // 2, 3 and 5 // 5,3,2 // 2;3;5 // \{2,3,5\}
17 :: Therefore, the answer is 17. // \text{The answer is } 17 // 17 apples
1/8 :: 12.5\% // 0.125 // \frac18 // 2/16
\sqrt[3]{4} :: 4^{1/3} // 2^{2/3} // \sqrt[3]{4} // \sqrt[3]4 // \sqrt [3] 4 // \sqrt[3]{2}\sqrt[3]2
|x-1| :: |1-x| // |x-1| // \left|x-1\right| // \lvert x-1\rvert
\ln 2 :: ln(2) // \ln{2} // \ln(2)
x^{2y} :: x^{2y} // x^{2*y} // x^{y\cdot 2}
[0,1] :: 0\le x\le 1 // [0, 1] // 0 ≤ x ≤ 1 // 1 \ge x \ge 0 // x\in[0,1]
x=1 :: 1 // x = 1.0
24\pi\text{ cm}^3 :: 24\pi // 24π cm³ // 24\pi \text{ cm}^3 // 24\pi\text{ cubic centimeters} //
    24\pi \text{ cm}^{3}
\frac{3}{4} :: 0.75 // 75\% // 3/4 // \frac{6}{8} // ¾
(3,-1) :: (3,-1) // ( 3 , -1 ) // (x,y)=(3,-1) // (3,−1) // (6/2,-1)
1000000 :: 1,000,000 // 10^6 // 1 million // 1{,}000{,}000 // 1e6
\frac{n(n+1)}{2} :: n(n+1)/2 // \frac{n^2+n}{2} // \frac{1}{2}n(n+1) // \frac{n^2}{2}+\frac n2
x < 1 \text{ or } x > 2 :: x<1 or x>2 // x > 2 or x < 1 // (-\infty,1)\cup(2,\infty) // 1>x or 2<x
2,3 :: x=2 or x=3 // 2 or 3 // \{3,2\}
2\pi :: 2π cm // 2\pi inches // 2 pi // 2\pi square units
5\sqrt{2}\text{ miles} :: 5\sqrt{2} // 5\sqrt{2} miles // \sqrt{50}\text{ mi}
2,-2 :: x = 2, -2 // x=2 or -2
x=2,-2 :: -2,2
x = -2, 2 :: x=2, x=-2
10^{20} :: 10^20
odd :: Odd.
Yes :: yes
30^\circ :: \angle A = 30^\circ
\frac{\pi}{3} :: \pi/3 \text{ radians}
x = t, x = -t :: -t, t
\left( 3, \frac{\pi}{2} \right) :: (3, \pi/2)
p - q :: -q+p
\frac{14}{3} :: 14/3
\text{Evelyn} :: Evelyn
90^\circ :: 90 // 90 degrees
3\sqrt{13} :: \sqrt{117} // 3*sqrt(13)
6 - 5i :: -5i+6
1,-2 :: -2, 1 // x=1 \text{ or } x=-2 // 1 \text{ and } -2
52_8 :: 52_{8} // 52
11\sqrt2 :: 11\sqrt{2}
3, 5, 7 :: 7,5,3
1.25 :: \frac54
0.15 :: 15/100
\cot x :: \frac{\cos x}{\sin x} // 1/\tan(x)
1 \pm \sqrt{19} :: 1+\sqrt{19}, 1-\sqrt{19} // x = 1 \pm \sqrt{19}
(a+5)(b+2) :: ab+2a+5b+10
(3,4] :: (3, 4]
x \in [-2,7] :: [-2,7] // -2 \le x \le 7
[-2,7] :: -2\leq x\leq 7
(2,\infty) :: x > 2
(-\infty, 2) \cup (3, \infty) :: (3,\infty)\cup(-\infty,2)
\begin{pmatrix} -2 \\ -14 \\ -7 \end{pmatrix} :: \begin{bmatrix}-2\\-14\\-7\end{bmatrix}
\begin{pmatrix} 1/5 \\ -18/5 \end{pmatrix} :: \begin{pmatrix} 0.2 \\ -\frac{18}{5} \end{pmatrix}
5x - 7y + 11z + 4 = 0 :: 10x-14y+22z = -8 // -5x+7y-11z-4=0
y = 2x + 3 :: 2x+3 // y - 2x = 3
\{1\pm\sqrt{5},-2\} :: \{-2, 1+\sqrt5, 1-\sqrt5\}
\text{(C)} :: C // (C) // \textbf{(C)}
864 \mbox{ inches}^2 :: 864 // 864 square inches
15\mbox{ cm}^2 :: 15 \text{ cm}^2
\$18.90 :: 18.9 // \$18.90
58,500 :: 58500
10,\!080 :: 10080
1\frac{4}{5} :: 9/5 // 1.8
.0000672 :: 6.72\times 10^{-5}
\frac{270}7\text{ degrees} :: \frac{270}{7}^\circ
5.4 \text{ cents} :: 5.4
50\% :: 50 // 0.5 // \frac{1}{2}
50 :: 50\%
\frac{20000}{\pi} :: 20000/\pi
8n^2 + 4n + 1 :: 1+4n+8n^2
3R^2 :: 3R^2
288 \pi :: 288\pi // 288pi
\frac{\sqrt{3}}{3} :: \frac{1}{\sqrt{3}}
\frac{11+9a}{20} :: \frac{9a}{20}+\frac{11}{20}
x^5 - x^4 + x^3 - x^2 + x - 1 :: (x-1)(x^4+x^2+1)
\text{even} :: Even
2k :: 2 k
(-\sqrt{3}, \sqrt{3}) :: (-\sqrt3,\sqrt3)
\left[ \frac{\pi^2}{8}, \frac{5 \pi^2}{4} \right] :: [\pi^2/8, 5\pi^2/4]
f(x)=x^2 :: x^2
x^2 :: f(x)=x^2
x^2+1 :: x**2+1
e^{x} :: exp(x)
2x^2y :: 2 x^{2} y
1+2i :: 2i+1
\frac{1+i}{2} :: \frac{1}{2}+\frac{i}{2}
1+274i :: 274i+1
2 :: 2.000
1000 :: 10^3
\frac{1}{3} :: 0.\overline{3}
-1 :: −1
x<2 :: 2>x
2^{1/3} :: \sqrt[3]{2}
11,\! 111,\! 111,\! 100 :: 11111111100
\{2,3\} :: 2,3
\sin^2 x :: 1-\cos^2 x
4x^2 :: (2x)^2
x=2,y=3 :: y=3, x=2
\arcsin\frac{1}{3} :: \arcsin(1/3)
# one short sentence around the answer
\left( 3, \frac{\pi}{2} \right) :: The polar coordinates are $(3, \pi/2)$.
12\pi :: The area of the circle is $12\pi$ square units.
5 :: The value of $x$ is $5$.
x=5 :: The value of x is 5
12 :: There are 12 ways.
7 :: So f(2) = 7 // The value of $f(2)$ is $7$.
\frac{1}{2} :: The probability is \(\frac{1}{2}\).
\text{Evelyn} :: The student with the greatest speed is Evelyn.
\text{even} :: The function is even
\text{(C)} :: The answer is (C).
1,-2 :: The solutions are $x = 1$ and $x = -2$. // $x=1$ and $x=-2$
\sqrt{2},-\sqrt{2} :: $\sqrt{2}$ and $-\sqrt{2}$
y = 2x + 3 :: The equation of the line is $y = 2x + 3$.
x^2+1 :: The polynomial f(x) is $x^2 + 1$.
(2,\infty) :: The domain is $x > 2$.
\sqrt{2} :: Therefore, the answer is: $\sqrt{2}$ // Thus $\sqrt{2}$
2\sqrt{3} :: \text{The length is } 2\sqrt{3} \text{ cm}
3\sqrt{13} :: 3√13 // √117
27 :: 27\text{ units}^2 // 27 units^2
\text{ellipse} :: an ellipse // The graph is an ellipse.
(3,1) :: (3, 1)
"""
WRONG = r"""
(3,1) :: 5<x<2 // x<1<0 // 3<x<1 // (1,3)
x+3 :: x+√13
\frac{n(n+1)}{2} :: \sum_{k=1}^{n} k
\frac{1}{2} :: 2 // 1/3 // 0.49999 // \frac{2}{1} // 1 // 1/2 or 1/3 // \frac{-1}{2} // -0.5 //
    \frac{1}{2}x // 12 // 0.5i // \sin 30^\circ
2\sqrt{3} :: 3.46 // 2\sqrt{2} // \sqrt{6} // -2\sqrt{3} // \pm 2\sqrt{3} // 3\sqrt{2} //
    \sqrt[3]{12} // 3.4641016151377544
(1,2) :: (2,1) // 1,2 // [1,2] // (1,2] // (1,2,3) // (1) // {1,2} // 12 // (1,2),(2,1)
x^2+2x+1 :: x^2+2x // (x-1)^2 // x^2+2x+2 // (x+1) // x^2+2x+1=0 // x^3+2x+1 // X // (x+1)^2 + c
\{1,2,3\} :: \{1,2\} // \{1,2,3,4\} // (1,2,3) // [1,3] // 1,2 // 123
(-\infty,0] :: (-\infty,0) // x<0 // x \ge 0 // [-\infty,0) // (0,\infty) // [0,\infty)
\pi :: 3.14 // 22/7 // 3.1416 // 180 // 2\pi // \pi^2 // p // i // 3.14159265358979323846
12 :: 12x // 21 // -12 // 12! // 12 or 13 // 12\sqrt{2} // 3*4 // 3 \times 4 // 1.2 // 120 //
    12^2 // (12,13) // {12,13} // twelve
10080 :: 10.080 // 1080 // 100,80 // 10080x
\text{June 20} :: 20 June 2020 // July 20 // June 2 // June 200
\begin{pmatrix}1&2\\3&4\end{pmatrix} :: \begin{pmatrix}1&3\\2&4\end{pmatrix} //
    \begin{pmatrix}1&2\\3&5\end{pmatrix} // 1,2,3,4 // \begin{pmatrix}1&2&3&4\end{pmatrix} //
    \begin{vmatrix}1&2\\3&4\end{vmatrix}
3+4i :: 3-4i // 4+3i // 7i // 5 // 7 // 3+4 // -3-4i
3,-3 :: 3 // -3 // (3,-3) // |3| // 9
2^{10} :: 2^{11} // 1023 // 20 // 210
\frac{\pi}{4} :: 45 // 0.785 // \frac{4}{\pi} // \frac{3\pi}{4} // -\frac{\pi}{4} // π4 //
    \arctan(1)
120^\circ :: 60 // 120\pi // 12 // -120 // 120 radians
e^2 :: 7.389 // 2e // e // e^{-2} // e^3
\log_2 3 :: \log_3 2 // 1.585 // \log 3 // \ln 3
\emptyset :: 0 // \{0\} // \{\emptyset\}
y=2x+1 :: y=2x // x=2y+1 // y=-2x+1 // y=2x-1 // 2x+1=0
\frac{x}{y} :: y/x // xy // \frac{y}{x} // x-y // x
a=1,b=2 :: a=2,b=1 // a=1 // a=1,b=3
0.\overline{3} :: 0.3 // 0.33 // 0.333333333333 // 3
\sqrt{2} :: 1.414 // 2 // \sqrt{3} // -\sqrt{2} // \sqrt[3]{2} // 1.4142135623730951 // \sqrt{2}x //
    \sqrt{2}\text{ or not} // 1.41421356237309504880168872420969807856967187537694
5 :: 5=4+1 // 4+1 // 6-1 // 5! // the square root of 5 // 5 over two // 5 is wrong // 5 choose 2 //
    \sqrt[3]{5} // y // 5i // \sqrt{25}
x=5 :: x=-5 // y=5 // x=5,6
3:4 :: 4:3 // 3:5 // 34
10\% :: 0.1\% // 100 // 1%
-\frac{1}{3} :: 1/3 // \frac{-1}{-3} // -3 // -0.333 // \frac{3}{-1} // -\frac{1}{-3}
x^2-1 :: (x-1)(x+1)=0 // x^2+1 // (x-1)^2
\frac{1}{x+1} :: 1/x+1 // x+1 // \frac{1}{x}+1
2x :: 2X // 2+x // x^2 // 2 // x
x \ge 3 :: x>3 // (3,\infty) // x \le 3 // 3 // x=3
(-\infty,1)\cup(2,\infty) :: x<1 and x>2 // x<1 // (1,2) // [2,\infty)\cup(-\infty,1] //
    x \le 1 or x>2 // (-\infty,1),(2,\infty) // x<1 or y>2 // x<1, y>2
6\sqrt{2} :: 8.485 // 6\sqrt2+0.0001 // 12 // 62
\frac{\sqrt{2}}{2} :: 0.707 // \sqrt{2} // \frac{2}{\sqrt{2}} // \sin 45^\circ
0 :: O // 1/0 // 0x // null // none // 0/0 // 0^0 // 1-1
\infty :: -\infty // 0 // 1/0 // large
2\frac{1}{2} :: 2\cdot\frac12 // 21/2 // 1 // 2/12 // \frac{2}{5}
a^2b :: ab^2 // a^{2b} // (ab)^2 // a^2+b
\cos\theta :: \sin\theta // \cos x // \cos // -\cos\theta // \cos^2\theta
2,3,5 :: 2,3 // 2,3,5,7 // 235 // 2 3 5 // (2,3,5)
17 :: 17 or 18 // 1 7 // seventeen // 17/18 // 71
1/8 :: 0.12 // 8 // 1.25
\sqrt[3]{4} :: \sqrt{4} // 4/3 // 1.587 // 3\sqrt{4} // \sqrt[4]3 // \sqrt[3]5 // \sqrt[3]44
|x-1| :: x-1 // 1-x // |x+1| // -|x-1|
\ln 2 :: 0.693 // \ln 3 // 2
x^{2y} :: x^2y // x^{2}y // x^{y^2} // 2xy
[0,1] :: 0<x<1 // (0,1) // 0,1 // [1,0] // [0,1) // {0,1}
x=1 :: y=1 // x=1,2 // x \ne 1 // x>1 // x=\pm 1 // x=-1
24\pi\text{ cm}^3 :: 24 // 24\pi^3 // 12\pi // 24\pi\text{ cm}^2 // 24\pi \text{ inches} //
    24\pi\text{ m}^3 // 24\pi\text{ square centimeters}
\frac{3}{4} :: 4/3 // 0.7 // 3.4 // 34 // 3 4 // 3,4 // \frac{3}{4}\pi // -\frac34
(3,-1) :: (-1,3) // 3,-1 // (3,1) // (y,x)=(3,-1) // [3,-1] // (3,-1,0)
1000000 :: 1,000 // 100000 // 1.000.000 // 10^5
\frac{n(n+1)}{2} :: n(n+1) // n^2/2 // \frac{n(n-1)}{2} // \binom{n}{2}
x < 1 \text{ or } x > 2 :: x<1 or y>2 // x<1 and x>2 // x<1 // x<2 or x>1 // x \le 1 or x > 2
2,3 :: x=2 or y=3 // 2 or 4
2\pi :: 2 phi // 2\pi cm x // 2\pi ab
5\sqrt{2}\text{ miles} :: 5\sqrt{2} km // 5 miles // 5\sqrt{2}\text{ feet}
2,-2 :: x = 2, y = -2 // x = 2, 3
x=2,-2 :: y = 2, -2
10^{20} :: 10^21
no :: yes
even :: odd
1234.567 :: 1.234,567
y = -2x :: x = -2x
x = t, x = -t :: y = t, y = -t
x^2+1 :: x^2+1 \text{ is wrong} // x^2+1=0
2000 :: 2k
3\sqrt{13} :: 10.8166538
\frac13 :: 0.333333
0.33 :: 1/3
4 :: 2+2
1024 :: 2^{10}
15 :: \binom{6}{2}
(2,4) :: [2,4] // 2,4 // (4,2)
1,-2 :: 1
1 :: 1,-2
1,1,2 :: 1,2
52_8 :: 52_9
42 :: 52_8
R^2-r^2 :: 0
3R^2 :: 3r^2
5.4 \text{ cents} :: 5.4 dollars
15 \text{ cm}^2 :: 15 cm
0.5 :: 0.5\%
0.005 :: 50\%
2 :: 2t // 2\pi
2t :: 2
10 :: 10 m // 10m
x \in [-2,7] :: x \in (-2,7]
[-2,7] :: -2 < x < 7
(2,\infty) :: x \ge 2
x>2 :: y>2 // x<2
x > 2 :: -x > -2
5x=3 :: 5x=4
y = 2x + 3 :: y=3x+2
\text{east} :: west
\text{(C)} :: D // C or D
\begin{pmatrix} 1 \\ 2 \end{pmatrix} :: \begin{pmatrix} 1 & 2 \end{pmatrix} //
    \begin{pmatrix} 2 \\ 1 \end{pmatrix}
\frac{\pi}{6} :: \arcsin(1/2) // \arcsin\frac{1}{2}
x^2 :: x^3
x :: |x| // y
|x| :: x
\sqrt{x^2} :: x
9 :: 9^9^9^9
a+b :: a-b
ab :: a+b
x_1 :: x_2 // x
1 \pm \sqrt{19} :: 1+\sqrt{19}
\{1,2\} :: \{1,2,3\}
(0,9) \cup (9,36) :: (0,36)
6 :: 6,7 // 6 or 7
\sqrt{2}+10^{-50} :: \sqrt{2}
\text{Navin} :: not Navin
-1 :: 1
\frac{a}{b} :: \frac{b}{a}
e :: 2.718281828
(6,31,-1) :: (6,31,1)
2x+3 :: 2x+3+10^{-30}
1000 :: 1,00,0
1234 :: (1,234)
12\pi :: 12
1000000000000000000000000000000 :: 1000000000000000000000000000001
0.1 :: 0.1000000000000000001
# sentences that say something else
\sqrt{2} :: The answer is not $\sqrt{2}$. // I doubt that it is $\sqrt{2}$. //
    The answer isn't $\sqrt{2}$. // The wrong answer is $\sqrt{2}$. //
    The answer is $\sqrt{2}$ or $\sqrt{3}$. //
    The answer is $\sqrt{3}$ or the answer is $\sqrt{2}$. // The answer may be $\sqrt{2}$. //
    If the answer is $\sqrt{2}$ // The answer is at least $\sqrt{2}$. //
    The answer is about 1.414213562373095 // The answer is $\sqrt{2}$. No, it is $\sqrt{3}$. //
    The negative of it is $\sqrt{2}$
5 :: The answer is 5! // The answer is 4 + 1 // The answer is 4, 5 // There are 5 or 6 ways. //
    $4$ and $5$
y = 5 :: The value of x is 5.
\text{even} :: The function is not even // The function that is even is odd
\text{(C)} :: The answer is C or D
1,-2 :: The solution is 1.
# an inequality or an equation that is still to be solved: it may be the question
[-2,7] :: x^2-5x-14 \le 0
(-\infty,-1)\cup(3,\infty) :: \frac{x+1}{x-3}>0
(-2,2) :: |2x|<4 // x^2<4
x<3 :: 2x+5<11 // x-1<2
x < 1 \text{ or } x > 2 :: 2x < 2 or x > 2
x=\sqrt{2} :: x-\sqrt{2}=0
"""


def decide(gold, answer):
    quick = compare_quickly(gold, answer)
    return equal_structures(gold, answer) if quick is None else quick


@pytest.mark.parametrize(("gold", "answer"), [*read_table(RIGHT), ("12", "\u200b12\ufeff")])
def test_an_answer_that_a_user_would_take_is_right(gold, answer):
    assert decide(gold, answer) is True


@pytest.mark.parametrize(("gold", "answer"), [*read_table(WRONG), ("0", ""), (r"(2,\infty)", "")])
def test_an_answer_that_a_user_would_refuse_is_wrong(gold, answer):
    assert decide(gold, answer) is False


@pytest.mark.parametrize(
    "gold", ["x'", r"\frac{1", "(1,", r"\begin{pmatrix} 1 & 2 \\ 3 \end{pmatrix}"]
)
def test_a_gold_answer_that_cannot_be_read_is_compared_as_a_text(gold):
    assert decide(gold, gold) is True
    assert equal_structures(gold, gold) is True
    assert decide(gold, "2y") is False


@pytest.mark.parametrize(
    "answer",
    [
        "",
        " ",
        "}",
        "{",
        "\\",
        "(((",
        "[" * 500,
        r"\frac{1}",
        "1,,2",
        r"\begin{pmatrix}",
        "\x00",
        "=",
        ",",
    ],
)
def test_a_malformed_answer_is_wrong_and_raises_nothing(answer):
    assert decide(r"\frac{\sqrt{2}}{2}", answer) is False
    assert decide("(1,2]", answer) is False
    assert decide("5", answer) is False


def test_numbers_and_words_never_wait_for_a_process():
    pool = GradingPool(workers=1)
    pairs = [
        ("5", "9^9^9^9"),
        ("5", "5.0"),
        (r"\text{even}", r"\sqrt{2}"),
        (r"\sqrt{2}", r"\sqrt 2"),
    ]
    assert grade_answers(pairs, pool) == [False, True, False, True]
    assert pool.pid is None


def test_structure_tells_tuples_intervals_sets_and_lists_apart():
    assert read_structure("(1,2)").label == "()"
    assert read_structure("(1,2]").label == "(]"
    kinds = [read_structure(x).kind for x in ("1,2", r"\{1,2\}", r"(1,2)\cup[3,4]", "x<2")]
    assert kinds == ["list", "set", "union", "relation"]


def test_the_tag_the_box_and_nested_braces_are_read():
    task = get_task("math")
    for text in (
        r"<answer>\frac{1}{2}</answer>",
        r"so \boxed{\frac{1}{2}}",
        r"<answer>$\boxed{\dfrac{1}{2}}$</answer>",
        r"<think>\boxed{3}</think> The answer is \(\frac12\).",
    ):
        assert task.grade(text, {"answer": r"\frac{1}{2}"}).answer is True, text
    assert task.grade(r"so \boxed{\frac{1}{2}", {"answer": r"\frac{1}{2}"}).answer is False


def test_several_boxes_are_one_answer_only_when_they_stand_together():
    task = get_task("math")
    assert task.grade(r"\boxed{1} and \boxed{-2}", {"answer": "1,-2"}).answer is True
    assert task.grade(r"\boxed{1}. Hmm, rather \boxed{-2}", {"answer": "1,-2"}).answer is False
    assert task.grade(r"\boxed{7}. Hmm, rather \boxed{-2}", {"answer": "-2"}).answer is True


def test_the_lenient_mode_takes_the_tag_the_last_number_or_the_whole_text():
    strict, lenient = get_task("math"), get_task("math", mode="lenient")
    row = {"answer": "42"}
    for text in ("it makes 42", "<answer>42", "42", r"<answer>\boxed{42}</answer> of 50"):
        assert lenient.grade(text, row).answer is True
    assert strict.grade("it makes 42", row).answer is False
    assert lenient.grade("42 of 50", row).answer is False
